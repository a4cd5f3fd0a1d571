-- Decides one request over n limits: reads everything, decides everything, then charges all of them or none.
--
-- KEYS[2i-1]        state of limit i's subject         (12 bytes, or a log; see src/limit/state.rs. Of a concurrency
--                   limit the sorted set of its holders; see slots.lua)
-- KEYS[2i]          override of limit i's subject      ("LIMIT UNTIL_MS"; limit 0 is a ban, until 0 is open-ended)
-- KEYS[2n+1]        the charge id, where there is one  ("FINGERPRINT REPLY…")
-- ARGV[1]           the caller's clock in ms since the Unix epoch; empty: the store's own is used
-- ARGV[2 ..]        six for each limit:
--   algorithm       b token bucket, f fixed window, s sliding window, l sliding log, c concurrency; upper case: in shadow.
--                   b~MS: a request that comes up to MS ms before its moment passes, to be held until then; ~0 none does
--                   Behind b, f and s `+N`: with the cost as many units more as there are, up to N (permits)
--   limit           units per window, or slots         window          ms; of c the lease
--   burst           units at once from idle; of c the holder's id, 1 to 64 of A-Z a-z 0-9 _ -
--   ttl             ms from which on an idle key says nothing
--   cost            units asked for; 0 is a look. Of c anything else takes one slot, and a look is refused where a
--                   request would be
-- ARGV[6n+2 ..]     with a charge id: ms to keep it, and the request's fingerprint
--
-- Reply: 1 or 0 (let through or not), then four integers for each limit: limit in force, whole units left, ms until
-- nothing is used any more (for a refusal: until it passes), and ms to wait (0 passes now, -1 never passes). Of c, ms
-- until the first lease ends, 0 where nobody holds. Then one for each c and each limit with a modifier, in their order:
-- the fence of the slot that was taken, 0 if none was; of `~` ms to hold the request, of `+` the units charged beyond
-- the cost, 0 where it is refused. With a charge id, of a request that was let through, last the clock in ms that
-- decided it: so a repeat knows when the first was charged. Just 2 where the charge id belongs to a request with
-- another fingerprint.
--
-- Invariants: a refusal writes nothing; every write carries its TTL; stored time never moves back, so a slow clock
-- adds nothing; a stored time more than a minute ahead of the caller's is put to the store's clock, and where that
-- agrees with the caller it is mended on the spot, the one write that does not charge; a charge id charges once. All
-- numbers are integers below 2^53, so doubles compute them exactly. Commands: MGET, then one SET for each limit
-- charged, and one for the charge id.
--
-- Of b~: a request that is held is charged at once, on credit: more is used then than the burst, at most what MS ms
-- earn. So each that follows has a later moment, whichever caller asks; what a refusal waits for is to be let through,
-- to be held or not. A look charges nothing and is told for how long those before it are held, at most MS.
--
-- Of c: leases begin and end by the store's clock alone, so that no caller's clock adds a slot; the caller's decides
-- only whether to ask for it, which a look or a refusal over leases that all still run does without. An id that holds
-- keeps its fence, has its lease renewed and counts once. A lease that ends more than a minute after a fresh one would
-- is cut to a fresh one by whoever is refused. Every key written has a TTL that no lease in it outlives. Commands:
-- ZMSCORE, ZCARD, ZRANGE, one more where all slots are held or the first lease is one's own; TIME, ZADD, PTTL and
-- PEXPIRE for a slot; for leases that have ended ZCOUNT, ZRANGE twice and a ZREM for each; for those cut ZRANGEBYSCORE
-- and a ZADD for each.
--
-- Written for the path where all limits let the request through: it is decided as if charged, and only where a limit
-- refuses is everything worked out once more without. Tables are made in one piece for up to four limits.

local EPOCH, SLACK, MARGIN = 1735689600000, 60000, 2000
local TWO32, TWO31 = 4294967296, 2147483648
local FENCES, FENCES_PER_MS, LONGEST = '1000000000000000', 1024, 86402000
local call, byte, char, floor, ceil = redis.call, string.byte, string.char, math.floor, math.ceil

-- Microseconds into the store's millisecond: fences rise within it, too, where a flush has taken the last one away.
local micros = 0
local function store_clock()
  local time = call('TIME')
  micros = time[2] % 1000
  return time[1] * 1000 + floor(time[2] / 1000)
end

local found = call('MGET', unpack(KEYS))
local now, arbiter = tonumber(ARGV[1]), nil
if not now then
  arbiter = store_clock()
  now = arbiter
end
if now < EPOCH then now = EPOCH end

local n = floor(#KEYS / 2)
local charge = #KEYS > 2 * n and KEYS[#KEYS]
if charge and found[#KEYS] then
  local fingerprint, first = string.match(found[#KEYS], '^(%S+) (.*)$')
  if fingerprint ~= ARGV[6 * n + 3] then return { 2 } end
  local reply = {}
  for number in string.gmatch(first, '%S+') do reply[#reply + 1] = tonumber(number) end
  return reply
end

local reply = { 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 }
local writes, ttls = { false, false, false, false }, { false, false, false, false }
local charging, refused, seats, behind = true, false, nil, nil

repeat
  local again = false
  for i = 1, n do
    local arg = i * 6 - 4
    local algorithm, ttl = ARGV[arg], ARGV[arg + 4]
    local limit, window, burst, cost = ARGV[arg + 1] + 0, ARGV[arg + 2] + 0, ARGV[arg + 3], ARGV[arg + 5] + 0
    local state, override = found[2 * i - 1], found[2 * i]
    local ahead, more
    if #algorithm > 1 then
      local number = string.sub(algorithm, 3) + 0
      if byte(algorithm, 2) == 43 then more = number else ahead = number end
      algorithm = string.sub(algorithm, 1, 1)
      behind = behind or {}
      behind[i] = 0
    end
    local shadow = algorithm < 'a'
    if shadow then algorithm = string.lower(algorithm) end
    local banned, wait, left, reset, write, mended = nil, 0, 0, 0, false, false

    if override then
      local value, till = string.match(override, '^(%d+) (%d+)$')
      value, till = tonumber(value), tonumber(till)
      if value and (till == 0 or till > now) then
        if value == 0 then
          banned = till == 0 and -1 or till - now
        else
          -- No more than the two bytes of a log's charges, or the four of a window's count, can hold.
          local most = algorithm == 'l' and 65535 or 4294967295
          if value > most then value = most end
          if algorithm ~= 'c' then burst = ceil(burst * value / limit) end
          limit = value
          if algorithm == 'b' then ttl = string.format('%.0f', ceil(burst * window / limit) + (ahead or 0) + MARGIN) end
        end
      end
    end

    if algorithm == 'b' then
      burst = burst + 0
      local used, at = 0, now
      if state and #state == 12 then
        local a, b, c, d, e, f, g, h, j, k, l, m = byte(state, 1, 12)
        used = (((((a * 256 + b) * 256 + c) * 256 + d) * 256 + e) * 256 + f) * 256 + g
        at = (((h * 256 + j) * 256 + k) * 256 + l) * 256 + m + EPOCH
        if at > now + SLACK then
          arbiter = arbiter or store_clock()
          if at > arbiter + SLACK then
            at, mended = arbiter, true
            -- What was used while the burst was greater takes longer to drain than a full bucket.
            if used > burst * window + (ahead or 0) * limit then ttl = string.format('%.0f', ceil(used / limit) + MARGIN) end
          end
        end
        if at < now then
          local earned = (now - at) * limit
          used = earned < used and used - earned or 0
          at = now
        end
      end
      local missing = used + cost * window - burst * window
      if cost > burst then
        wait = -1
      elseif missing > 0 then
        local due = at - now + ceil(missing / limit)
        if not ahead then
          if cost > 0 then wait = due end
        elseif cost > 0 and due > ahead then
          wait = due - ahead
        else
          behind[i] = due < ahead and due or ahead
        end
      end
      local charged = charging and wait == 0 and not banned and cost > 0
      if charged then used = used + cost * window end
      left = floor((burst * window - used) / window)
      if more and charged and left > 0 then
        if more > left then more = left end
        used, left, behind[i] = used + more * window, left - more, more
      end
      if used > 0 then reset = at - now + ceil(used / limit) end
      if charged or mended then
        -- Pairs of bytes, then bytes, by subtraction: every operand is a whole number, and no function is called.
        local time = at - EPOCH
        local d, f = used % 65536, time % 65536
        local used_high, time_high = (used - d) / 65536, (time - f) / 65536
        local c, e = used_high % 65536, time_high % 65536
        local top, time_top = (used_high - c) / 65536, (time_high - e) / 65536
        local b = top % 65536
        local a = (top - b) / 65536
        local h, j, k, l, m = b % 256, c % 256, d % 256, e % 256, f % 256
        write = char(a, (b - h) / 256, h, (c - j) / 256, j, (d - k) / 256, k, time_top, (e - l) / 256, l,
          (f - m) / 256, m)
      end
    elseif algorithm == 'l' then
      local function entry(k)
        local a, b, c, d, e, f, g = byte(state, 3 + k * 7, 9 + k * 7)
        return (((a * 256 + b) * 256 + c) * 256 + d) * 256 + e + EPOCH, f * 256 + g
      end
      local function pack(at, units)
        local time = at - EPOCH
        return char(floor(time / TWO32) % 256, floor(time / 16777216) % 256, floor(time / 65536) % 256,
          floor(time / 256) % 256, time % 256, floor(units / 256), units % 256)
      end
      local used, head, count, last, log = 0, 0, 0, 0, ''
      if state and #state > 2 and #state % 7 == 2 then
        count = (#state - 2) / 7
        local a, b = byte(state, 1, 2)
        used = a * 256 + b
        last = entry(count - 1)
        if last > now + SLACK then
          arbiter = arbiter or store_clock()
          if last > arbiter + SLACK then
            local moved = 0
            while count > 0 do
              local at, units = entry(count - 1)
              if at < arbiter then break end
              moved, count = moved + units, count - 1
            end
            state = string.sub(state, 1, 2 + count * 7) .. pack(arbiter, moved)
            last, count, mended = arbiter, count + 1, true
          end
        end
        local clock = last > now and last or now
        while head < count do
          local at, units = entry(head)
          if at + window > clock then break end
          used, head = used - units, head + 1
        end
        if head < count then log = string.sub(state, 3 + head * 7) else last = 0 end
      end
      local missing = used + cost - limit
      if cost > limit then
        wait = -1
      elseif missing > 0 and cost > 0 then
        while missing > 0 do
          local at, units = entry(head)
          missing, head, wait = missing - units, head + 1, at + window - now
        end
      end
      local charged = charging and wait == 0 and not banned and cost > 0
      if charged then
        used = used + cost
        local clock = last > now and last or now
        if last == clock then
          local f, g = byte(log, -2, -1)
          log = string.sub(log, 1, -8) .. pack(clock, f * 256 + g + cost)
        else
          log, last = log .. pack(clock, cost), clock
        end
      end
      left = limit - used
      if last > 0 then reset = last + window - now end
      if charged or mended then write = char(floor(used / 256), used % 256) .. log end
    elseif algorithm == 'c' then
      seats = seats or {}
      local seat = seats[i] or {}
      seats[i] = seat
      if not seat.clock and not banned then
        local key, count = KEYS[2 * i - 1], 0
        local own = call('ZMSCORE', key, burst, ':' .. burst, ':')
        if own[3] then count = floor(call('ZCARD', key) / 2) end
        -- Holders come first, by the end of their leases.
        local function ending(rank)
          return rank < count and tonumber(call('ZRANGE', key, rank, rank, 'WITHSCORES')[2])
        end
        local first, clock, dead, last = ending(0), now, 0, false
        if cost > 0 and count >= limit and not own[1] then last = ending(count - 1) end
        if first and first <= now or cost > 0 and (not last or last > now + window + SLACK) then
          arbiter = arbiter or store_clock()
          clock = arbiter
        end
        if first and first <= clock then
          dead = call('ZCOUNT', key, '-inf', string.format('%.0f', clock))
          first = ending(dead)
        end
        if last and last > clock + window + SLACK then
          seat.far = call('ZRANGEBYSCORE', key, string.format('(%.0f', clock + window + SLACK), FENCES)
          if first > clock + window then first = clock + window end
        end
        local ends = tonumber(own[1])
        if ends and ends > clock then
          seat.fence = tonumber(own[2])
          seat.others = first
          if ends == first then seat.others = ending(dead + 1) end
        end
        seat.clock, seat.living, seat.first, seat.dead, seat.last = clock, count - dead, first, dead, tonumber(own[3])
      end
      if not banned then
        local clock, living, first = seat.clock, seat.living, seat.first
        if living >= limit and not seat.fence then wait = first - clock end
        seat.taken = charging and wait == 0 and cost > 0
        if seat.taken then
          if seat.fence then first = seat.others else living = living + 1 end
          if not first or first > clock + window then first = clock + window end
        end
        left = limit - living
        if first then reset = first - clock end
      end
    else
      local index, current, previous = floor(now / window), 0, 0
      if state and #state == 12 then
        local a, b, c, d, e, f, g, h, j, k, l, m = byte(state, 1, 12)
        local ahead = (((a * 256 + b) * 256 + c) * 256 + d - index) % TWO32
        if ahead >= TWO31 then ahead = ahead - TWO32 end
        if ahead > 0 and (index + ahead) * window > now + SLACK then
          arbiter = arbiter or store_clock()
          if (index + ahead) * window > arbiter + SLACK then
            ahead, mended = floor(arbiter / window) - index, true
          end
        end
        if ahead >= 0 then
          index = index + ahead
          current, previous = ((e * 256 + f) * 256 + g) * 256 + h, ((j * 256 + k) * 256 + l) * 256 + m
        elseif ahead == -1 and algorithm == 's' then
          previous = ((e * 256 + f) * 256 + g) * 256 + h
        end
      end
      local start = index * window
      local weighted = 0
      if cost > limit then
        wait = -1
      elseif algorithm == 'f' then
        if cost > 0 and current + cost > limit then wait = start + window - now end
      end
      if algorithm == 's' then
        weighted = previous * (now > start and window - (now - start) or window)
        if wait == 0 and cost > 0 and weighted + (current + cost) * window > limit * window then
          local room = limit - current - cost
          if room >= 0 then
            wait = start + window - floor(room * window / previous) - now
          else
            wait = start + 2 * window - floor((limit - cost) * window / current) - now
          end
        end
      end
      local charged = charging and wait == 0 and not banned and cost > 0
      if charged then current = current + cost end
      if algorithm == 'f' then
        left, reset = limit - current, start + window - now
      else
        left = floor((limit * window - weighted - current * window) / window)
        if current > 0 then
          reset = start + 2 * window - now
        elseif previous > 0 then
          reset = start + window - now
        end
      end
      if more and charged and left > 0 then
        if more > left then more = left end
        current, left, behind[i] = current + more, left - more, more
      end
      if charged or mended then
        -- Halves, then bytes, by subtraction: every operand is a whole number, and no function is called.
        local b, d, f = index % 65536, current % 65536, previous % 65536
        local a, c, e = (index - b) / 65536 % 65536, (current - d) / 65536, (previous - f) / 65536
        local g, h, j, k, l, m = a % 256, b % 256, c % 256, d % 256, e % 256, f % 256
        write = char((a - g) / 256, g, (b - h) / 256, h, (c - j) / 256, j, (d - k) / 256, k, (e - l) / 256, l,
          (f - m) / 256, m)
      end
    end

    if banned then limit, left, reset, wait = 0, 0, 0, banned end
    if wait ~= 0 and not shadow then
      refused = true
      again = charging
    end
    local at = i * 4 - 2
    reply[at], reply[at + 1] = limit, left > 0 and left or 0
    reply[at + 2], reply[at + 3] = wait > 0 and wait or reset, wait
    writes[i], ttls[i] = write, ttl
  end
  charging = false
until not again

reply[4 * n + 2] = nil
for i = 4 * n + 3, 17 do reply[i] = nil end
for i = 1, n do
  if writes[i] then call('SET', KEYS[2 * i - 1], writes[i], 'PX', ttls[i]) end
end
if seats or behind then
  for i = 1, n do
    local seat, key, arg = seats and seats[i], KEYS[2 * i - 1], i * 6 - 4
    if behind and behind[i] then
      reply[#reply + 1] = refused and 0 or behind[i]
    elseif seat then
      local id, ends = ARGV[arg + 3], string.format('%.0f', (seat.clock or 0) + ARGV[arg + 2])
      if seat.taken and seat.fence then
        call('ZADD', key, 'XX', ends, id)
      elseif seat.taken then
        local dropped = seat.dead > 0 and call('ZRANGE', key, 0, seat.dead - 1) or {}
        for _, member in ipairs(dropped) do call('ZREM', key, member, ':' .. member) end
        seat.fence = seat.clock * FENCES_PER_MS + floor(micros * FENCES_PER_MS / 1000)
        if seat.last and seat.fence <= seat.last then seat.fence = seat.last + 1 end
        local fence = string.format('%.0f', seat.fence)
        call('ZADD', key, ends, id, fence, ':' .. id, fence, ':')
      end
      for _, member in ipairs(seat.far or {}) do call('ZADD', key, 'XX', ends, member) end
      -- A key's life is never shortened: a lease that was longer once may still run. A key that has lost its TTL gets
      -- that of the longest lease.
      if seat.taken or seat.far then
        local left, ttl = call('PTTL', key), ARGV[arg + 4] + 0
        if left == -1 and seat.last then ttl = LONGEST end
        if left < ttl then call('PEXPIRE', key, ttl) end
      end
      reply[#reply + 1] = seat.taken and seat.fence or 0
    end
  end
end
if refused then
  reply[1] = 0
elseif charge then
  reply[#reply + 1] = now
  local first = { ARGV[6 * n + 3] }
  for i = 1, #reply do first[i + 1] = string.format('%.0f', reply[i]) end
  call('SET', charge, table.concat(first, ' '), 'PX', ARGV[6 * n + 2])
end
return reply
