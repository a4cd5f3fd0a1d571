-- Everything about a slot of a concurrency limit but its taking by a request, which is check.lua's.
--
-- KEYS[1]           holders of the subject: a sorted set. Of each holder, ID with the end of its lease in ms since the
--                   Unix epoch as score, and :ID with its fence; and : with the last fence that was given. Fences
--                   are greater than any time, so holders come first, by the end of their leases.
-- KEYS[2]           override of the limit's subject ("LIMIT UNTIL_MS"; limit 0 is a ban, until 0 is open-ended)
-- KEYS[3]           those who wait: a sorted set. Of each, ID with the moment until which its place is kept, and :ID
--                   with its number in the order of coming.
-- ARGV[1]           operation; below
-- ARGV[2], ARGV[3]  limit, and lease in ms           ARGV[4]  ttl: ms from which on idle holders say nothing
-- ARGV[5], ARGV[6]  id, 1 to 64 of A-Z a-z 0-9 _ -   fence; empty where the operation needs none
-- ARGV[7 .. 9]      of take: ms that the caller goes on waiting, 0 if not at all or no longer, which gives up its place;
--                   ms for which its place is kept without being asked for again; most waiters
--
--   take            a slot for an id; one that holds has its lease renewed and keeps its fence
--   renew, free     of the slot that is held under this id and this fence
--   leave           gives up the place of an id among those who wait
--   list            who holds, who waits; changes nothing
--
-- Reply: a code, then integers.
--   1 done          fence, end of the lease in ms, clock in ms, limit in force, slots left (leave: fence and end are 0)
--   0 refused       ms until it may pass (-1: banned for good), waiters ahead, clock in ms, limit in force
--   2 not held      given back before, expired, or never taken; of leave: no such waiter
--   3 wrong fence   the id holds under another one
--   4 queue full    as for 0
-- Of list: 1, clock in ms, limit in force, slots left, how many hold, how many wait; then id, fence, end of the lease
-- for each holder, the first to end first, and the id of each waiter, the oldest first.
--
-- Invariants: the clock is the store's alone, so callers' clocks do not matter; a lease that has ended is never
-- revived; 0, 2, 3 and 4 leave the holders as they are; a fence is higher than all before it, of those too that a
-- flush forgot; the slots that are free belong to as many of the oldest waiters; every key written has a TTL that no
-- lease or place in it outlives. Numbers are integers below 2^53. Commands: at most 14, however many hold and wait, and
-- a ZREM for each whose lease or place is over and is dropped; a list is as long as what it shows.

local FENCES_PER_MS, MARGIN, LONGEST = 1024, 2000, 86402000
local call, floor, format = redis.call, math.floor, string.format
local holders, queue = KEYS[1], KEYS[3]
local operation, limit, lease, id = ARGV[1], ARGV[2] + 0, ARGV[3] + 0, ARGV[5]

local function whole(number) return format('%.0f', number) end

local time = call('TIME')
local clock = time[1] * 1000 + floor(time[2] / 1000)

local banned
local value, till = string.match(call('GET', KEYS[2]) or '', '^(%d+) (%d+)$')
value, till = tonumber(value), tonumber(till)
if value and (till == 0 or till > clock) then
  limit = value < 4294967295 and value or 4294967295
  if value == 0 then banned = till == 0 and -1 or till - clock end
end

-- Each holder is two members, and one holds the last fence.
local count = floor(call('ZCARD', holders) / 2)
local dead = count > 0 and call('ZCOUNT', holders, '-inf', whole(clock)) or 0
local living = count - dead

local function done(fence, ends)
  return { 1, fence, ends, clock, limit, limit > living and limit - living or 0 }
end

-- Never shortens a key's life: a lease that was longer once may still run. One that has lost its TTL gets that of
-- the longest lease.
local function keep(key, ms, new)
  local left = call('PTTL', key)
  if left == -1 and not new then ms = LONGEST end
  if left < ms then call('PEXPIRE', key, whole(ms)) end
end

-- Drops who is over by now, the first `number` of a set.
local function drop(key, number)
  if number == 0 then return end
  for _, member in ipairs(call('ZRANGE', key, '0', whole(number - 1))) do
    call('ZREM', key, member, ':' .. member)
  end
end

if operation == 'list' then
  local ids = count > dead and call('ZRANGE', holders, whole(dead), whole(count - 1), 'WITHSCORES') or {}
  local fences, fence = call('ZRANGE', holders, whole(count), '-1', 'WITHSCORES'), {}
  for k = 1, #fences, 2 do fence[fences[k]] = tonumber(fences[k + 1]) end
  local waiting = floor(call('ZCARD', queue) / 2)
  local gone = waiting > 0 and call('ZCOUNT', queue, '-inf', whole(clock)) or 0
  local reply = { 1, clock, limit, limit > living and limit - living or 0, living, waiting - gone }
  for k = 1, #ids, 2 do
    reply[#reply + 1], reply[#reply + 2], reply[#reply + 3] = ids[k], fence[':' .. ids[k]], tonumber(ids[k + 1])
  end
  if waiting > gone then
    local lost = {}
    if gone > 0 then
      for _, member in ipairs(call('ZRANGE', queue, '0', whole(gone - 1))) do lost[':' .. member] = true end
    end
    for _, member in ipairs(call('ZRANGE', queue, whole(waiting), '-1')) do
      if not lost[member] then reply[#reply + 1] = string.sub(member, 2) end
    end
  end
  return reply
end

if operation == 'leave' then
  if call('ZREM', queue, id, ':' .. id) == 0 then return { 2 } end
  return done(0, 0)
end

local own = call('ZMSCORE', holders, id, ':' .. id, ':')
local ends, fence = tonumber(own[1]), tonumber(own[2])
local holds = ends and ends > clock

if operation ~= 'take' then
  if not holds then return { 2 } end
  if fence ~= tonumber(ARGV[6]) then return { 3 } end
end

if operation == 'free' then
  call('ZREM', holders, id, ':' .. id)
  keep(holders, ARGV[4] + 0)
  living = living - 1
  return done(fence, clock)
end

if holds then
  call('ZADD', holders, 'XX', whole(clock + lease), id)
  keep(holders, ARGV[4] + 0)
  return done(fence, clock + lease)
end

local wait, patience = ARGV[7] + 0, ARGV[8] + 0
if banned then return { 0, banned, 0, clock, limit } end

local waiting = floor(call('ZCARD', queue) / 2)
local ahead, placed = waiting, false
if waiting > 0 then
  local gone = call('ZCOUNT', queue, '-inf', whole(clock))
  drop(queue, gone)
  waiting = waiting - gone
  placed = call('ZRANK', queue, ':' .. id)
  ahead = placed and placed - waiting or waiting
end

if limit - living > ahead then
  drop(holders, dead)
  local last = tonumber(own[3]) or 0
  fence = clock * FENCES_PER_MS + floor(time[2] % 1000 * FENCES_PER_MS / 1000)
  if fence <= last then fence = last + 1 end
  call('ZADD', holders, whole(clock + lease), id, whole(fence), ':' .. id, whole(fence), ':')
  keep(holders, ARGV[4] + 0, not own[3])
  if placed then call('ZREM', queue, id, ':' .. id) end
  living = living + 1
  return done(fence, clock + lease)
end

-- What is free is kept for those ahead until the first of them loses its place.
local first = limit > living and call('ZRANGE', queue, '0', '0', 'WITHSCORES')
  or call('ZRANGE', holders, whole(dead), whole(dead), 'WITHSCORES')
local again = tonumber(first[2]) - clock

if wait > 0 then
  if not placed and waiting >= ARGV[9] + 0 then return { 4, again, ahead, clock, limit } end
  local kept = wait < patience and wait or patience
  if placed then
    call('ZADD', queue, whole(clock + kept), id)
  else
    local last = waiting > 0 and tonumber(call('ZRANGE', queue, '-1', '-1', 'WITHSCORES')[2]) or 0
    local number = clock * FENCES_PER_MS
    if number <= last then number = last + 1 end
    call('ZADD', queue, whole(clock + kept), id, whole(number), ':' .. id)
  end
  keep(queue, kept + MARGIN, waiting == 0)
elseif placed then
  call('ZREM', queue, id, ':' .. id)
end
return { 0, again, ahead, clock, limit }
