-- Settles one charge: for each of n limits that a request has reserved units of, charges what the request really cost
-- beyond that, or gives back what it did not cost. Once for each charge, however often it is asked for.
--
-- KEYS[2i-1]        state of limit i's subject         (12 bytes, as check.lua keeps them)
-- KEYS[2i]          override of limit i's subject      (as check.lua reads it)
-- KEYS[2n+1]        the settlement                     (its reply, kept for as long as the charge can be settled)
-- ARGV[1]           the caller's clock in ms since the Unix epoch; empty: the store's own is used
-- ARGV[2]           the clock by which the units were reserved
-- ARGV[3]           ms to keep the settlement
-- ARGV[4 ..]        eight for each limit:
--   algorithm       b token bucket, f fixed window, s sliding window
--   limit           units per window                   window          ms
--   burst           units at once from idle
--   reserved        units                              cost            units that it really was
--   over            when nothing would have been used any more after the reservation, had nobody used more: the clock
--                   of ARGV[2] and the ms of check.lua's reply. Of windows it says which one the reservation is in
--   rate            the limit in force then
--
-- Reply: 1, or 0 where the charge was settled before, with that reply's numbers; then two integers for each limit: whole
-- units charged (given back: below 0), and whole units left.
--
-- Invariants: every write carries its TTL; stored time never moves back, and clocks are held against each other as in
-- check.lua; what is used is never below 0 nor below what others have used. What a request cost beyond its reservation
-- is charged in full, now, also above the capacity (up to the greatest number that is exact): a key's TTL outlives such
-- a debt. What it did not cost is given back where it was reserved: in the window that it was reserved in, as far as that
-- still counts (f: the current one, s: this or the previous one); of a bucket, no more than was still used of what had
-- been used when it was reserved, since what has drained is back already. All numbers are integers below 2^53.
-- Commands: MGET, one SET for each limit that changes, one for the settlement; TIME as in check.lua. Settled before: MGET.

local EPOCH, SLACK, MARGIN = 1735689600000, 60000, 2000
local TWO32, TWO31, MOST = 4294967296, 2147483648, 9007199254740991
local call, byte, char, floor, ceil = redis.call, string.byte, string.char, math.floor, math.ceil

local found = call('MGET', unpack(KEYS))
local reply = { 1 }
if found[#KEYS] then
  reply[1] = 0
  for number in string.gmatch(found[#KEYS], '%S+') do reply[#reply + 1] = tonumber(number) end
  return reply
end

local now, arbiter = tonumber(ARGV[1]), nil
local function store_clock()
  if not arbiter then
    local time = call('TIME')
    arbiter = time[1] * 1000 + floor(time[2] / 1000)
  end
  return arbiter
end
now = now or store_clock()
if now < EPOCH then now = EPOCH end

local function read(text, from, to)
  local number = 0
  for at = from, to do number = number * 256 + byte(text, at) end
  return number
end
local function bytes(number, width)
  local text = ''
  for _ = 1, width do
    local low = number % 256
    text, number = char(low) .. text, (number - low) / 256
  end
  return text
end
local function least(a, b) return a < b and a or b end
local function most(a, b) return a > b and a or b end

for i = 1, floor(#KEYS / 2) do
  local arg = i * 8 - 4
  local algorithm, limit, window, burst = ARGV[arg], ARGV[arg + 1] + 0, ARGV[arg + 2] + 0, ARGV[arg + 3] + 0
  local more, over, rate = ARGV[arg + 5] - ARGV[arg + 4], ARGV[arg + 6] + 0, ARGV[arg + 7] + 0
  local state, override = found[2 * i - 1], found[2 * i]
  if override then
    local value, till = string.match(override, '^(%d+) (%d+)$')
    value, till = tonumber(value), tonumber(till)
    if value and value > 0 and (till == 0 or till > now) then
      value = least(value, TWO32 - 1)
      burst, limit = ceil(burst * value / limit), value
    end
  end
  local write, ttl, left
  if not state or #state ~= 12 then state = false end

  if algorithm == 'b' then
    local used, at = 0, now
    if state then
      used, at = read(state, 1, 7), read(state, 8, 12) + EPOCH
      if at > now + SLACK and at > store_clock() + SLACK then at = arbiter end
      if at < now then used, at = most(used - (now - at) * limit, 0), now end
    end
    local change = more * window
    if change < 0 then
      -- Of a bucket that drained at another rate since, as much as the faster one left. A part of a ms counts as gone.
      local room = (over - 1 - at) * rate
      if at > ARGV[2] + 0 then room = room - (at - ARGV[2]) * most(limit - rate, 0) end
      change = -least(-change, least(most(room, 0), used))
    else
      -- So that the time it takes to drain is exact with its margins, too.
      change = most(least(change, MOST - 100000 - used), 0)
    end
    used = used + change
    if change ~= 0 then write = bytes(used, 7) .. bytes(at - EPOCH, 5) end
    more = change < 0 and ceil(change / window) or floor(change / window)
    left = floor((burst * window - used) / window)
    ttl = most(ceil(burst * window / limit), at - now + ceil(used / limit))
  else
    local index, current, previous = floor(now / window), 0, 0
    local sliding = algorithm == 's'
    if state then
      local ahead = (read(state, 1, 4) - index) % TWO32
      if ahead >= TWO31 then ahead = ahead - TWO32 end
      if (index + ahead) * window > now + SLACK and (index + ahead) * window > store_clock() + SLACK then
        ahead = floor(arbiter / window) - index
      end
      if ahead >= 0 then
        index, current, previous = index + ahead, read(state, 5, 8), read(state, 9, 12)
      elseif ahead == -1 and sliding then
        previous = read(state, 5, 8)
      end
    end
    local own = floor((over * 2 + window) / (window * 2)) - (sliding and 2 or 1)
    if more > 0 then
      local bound = sliding and least(TWO32 - 1, floor(floor(MOST / window) / 2)) or TWO32 - 1
      more = most(least(more, bound - current), 0)
      current = current + more
    elseif own == index then
      more = most(more, -current)
      current = current + more
    elseif sliding and own == index - 1 then
      more = most(more, -previous)
      previous = previous + more
    else
      more = 0
    end
    if more ~= 0 then write = bytes(index % TWO32, 4) .. bytes(current, 4) .. bytes(previous, 4) end
    local start = index * window
    left = limit - current
    if sliding then
      local covered = now > start and window - (now - start) or window
      left = floor((limit * window - previous * covered - current * window) / window)
    end
    ttl = most(start - now, 0) + (sliding and 2 * window or window)
  end

  if write then call('SET', KEYS[2 * i - 1], write, 'PX', string.format('%.0f', ttl + MARGIN)) end
  reply[2 * i], reply[2 * i + 1] = more, most(left, 0)
end

local kept = {}
-- -0 + 0 is 0.
for i = 2, #reply do kept[i - 1] = string.format('%.0f', reply[i] + 0) end
call('SET', KEYS[#KEYS], table.concat(kept, ' '), 'PX', ARGV[3])
return reply
