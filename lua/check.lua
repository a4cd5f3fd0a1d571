-- Decides one request over n limits: reads everything, decides everything, then charges all of them or none.
--
-- KEYS[1 .. n]      state of each limit's subject      (12 bytes, or a log; see src/limit/state.rs)
-- KEYS[n+1 .. 2n]   override of each limit's subject   ("LIMIT UNTIL_MS"; limit 0 is a ban, until 0 is open-ended)
-- ARGV[1]           the caller's clock in ms since the Unix epoch; empty: the store's own is used
-- ARGV[2 ..]        six for each limit:
--   algorithm       b token bucket, f fixed window, s sliding window, l sliding log; upper case: in shadow
--   limit           units per window                   window          ms
--   burst           units at once from idle            ttl             ms from which on an idle key says nothing
--   cost            units asked for; 0 is a look
--
-- Reply: 1 or 0 (let through or not), then four integers for each limit: limit in force, whole units left, ms until
-- nothing is used any more (for a refusal: until it passes), and ms to wait (0 passes now, -1 never passes).
--
-- Invariants: a refusal writes nothing; every write carries its TTL; stored time never moves back, so a slow clock
-- adds nothing; a stored time more than a minute ahead of the caller's is put to the store's clock, and where that
-- agrees with the caller it is mended on the spot, the one write that does not charge. All numbers are integers
-- below 2^53, so doubles compute them exactly. Commands: MGET, then one SET for each limit charged.

local EPOCH = 1735689600000
local SLACK = 60000
local MARGIN = 2000
local byte, char, sub, lower = string.byte, string.char, string.sub, string.lower
local floor, ceil = math.floor, math.ceil

local function store_clock()
  local time = redis.call('TIME')
  return time[1] * 1000 + floor(time[2] / 1000)
end

local function five(a, b, c, d, e)
  return (((a * 256 + b) * 256 + c) * 256 + d) * 256 + e
end

local function pack5(x)
  return char(floor(x / 4294967296) % 256, floor(x / 16777216) % 256, floor(x / 65536) % 256,
    floor(x / 256) % 256, x % 256)
end

local function pack4(x)
  return char(floor(x / 16777216) % 256, floor(x / 65536) % 256, floor(x / 256) % 256, x % 256)
end

local function entry(log, k)
  local a, b, c, d, e, f, g = byte(log, 3 + k * 7, 9 + k * 7)
  return five(a, b, c, d, e) + EPOCH, f * 256 + g
end

local function pack_entry(at, units)
  return pack5(at - EPOCH) .. char(floor(units / 256), units % 256)
end

local found = redis.call('MGET', unpack(KEYS))
local now = tonumber(ARGV[1]) or store_clock()
if now < EPOCH then now = EPOCH end
local arbiter

-- Whether a stored time is so far ahead that it must be mended; asks the store's clock once, and only then.
local function poisoned(at)
  if at <= now + SLACK then return false end
  arbiter = arbiter or store_clock()
  return at > arbiter + SLACK
end

local n = #KEYS / 2
local x, y, z, w = {}, {}, {}, {}
local kinds, limits, bursts, ttls, waits, mended = {}, {}, {}, {}, {}, {}
local allowed = 1

for i = 1, n do
  local arg = i * 6 - 4
  local algorithm = ARGV[arg]
  local shadow = algorithm < 'a'
  if shadow then algorithm = lower(algorithm) end
  local limit, window = tonumber(ARGV[arg + 1]), tonumber(ARGV[arg + 2])
  local burst, ttl, cost = tonumber(ARGV[arg + 3]), ARGV[arg + 4], tonumber(ARGV[arg + 5])
  local wait, banned = 0, nil

  local override = found[n + i]
  if override then
    local value, till = string.match(override, '^(%d+) (%d+)$')
    value, till = tonumber(value), tonumber(till)
    if value and (till == 0 or till > now) then
      if value == 0 then
        banned = till == 0 and -1 or till - now
      else
        burst = ceil(burst * value / limit)
        limit = value
        if algorithm == 'b' then ttl = string.format('%.0f', ceil(burst * window / limit) + MARGIN) end
      end
    end
  end

  local state = found[i]
  if algorithm == 'b' then
    local used, at = 0, now
    if state and #state == 12 then
      local a, b, c, d, e, f, g, h, j, k, l, m = byte(state, 1, 12)
      used = (five(a, b, c, d, e) * 256 + f) * 256 + g
      at = five(h, j, k, l, m) + EPOCH
      if poisoned(at) then at, mended[i] = arbiter, true end
      if at < now then
        local earned = (now - at) * limit
        used = earned < used and used - earned or 0
        at = now
      end
    end
    local missing = used + cost * window - burst * window
    if cost > burst then
      wait = -1
    elseif missing > 0 and cost > 0 then
      wait = at - now + ceil(missing / limit)
    end
    x[i], y[i] = used, at
  elseif algorithm == 'l' then
    local used, head, last, count = 0, 0, now, 0
    if state and #state > 2 and #state % 7 == 2 then
      count = (#state - 2) / 7
      local a, b = byte(state, 1, 2)
      used = a * 256 + b
      last = entry(state, count - 1)
      if poisoned(last) then
        local moved, at, units = 0, last, 0
        while count > 0 do
          at, units = entry(state, count - 1)
          if at < arbiter then break end
          moved, count = moved + units, count - 1
        end
        state = sub(state, 1, 2 + count * 7) .. pack_entry(arbiter, moved)
        last, count, mended[i] = arbiter, count + 1, true
      end
      local clock = last > now and last or now
      while head < count do
        local at, units = entry(state, head)
        if at + window > clock then break end
        used, head = used - units, head + 1
      end
    end
    local missing = used + cost - limit
    if cost > limit then
      wait = -1
    elseif missing > 0 and cost > 0 then
      local k = head
      while missing > 0 do
        local at, units = entry(state, k)
        missing, k, wait = missing - units, k + 1, at + window - now
      end
    end
    x[i], y[i], z[i] = used, head < count and last or 0, head < count and sub(state, 3 + head * 7) or ''
  else
    local index, current, previous = floor(now / window), 0, 0
    if state and #state == 12 then
      local a, b, c, d, e, f, g, h, j, k, l, m = byte(state, 1, 12)
      local stored = ((a * 256 + b) * 256 + c) * 256 + d
      local ahead = (stored - index) % 4294967296
      if ahead >= 2147483648 then ahead = ahead - 4294967296 end
      if ahead > 0 and poisoned((index + ahead) * window) then
        ahead, mended[i] = floor(arbiter / window) - index, true
      end
      if ahead >= 0 then
        index = index + ahead
        current, previous = ((e * 256 + f) * 256 + g) * 256 + h, ((j * 256 + k) * 256 + l) * 256 + m
      elseif ahead == -1 and algorithm == 's' then
        previous = ((e * 256 + f) * 256 + g) * 256 + h
      end
    end
    local start = index * window
    if cost > limit then
      wait = -1
    elseif algorithm == 'f' then
      if cost > 0 and current + cost > limit then wait = start + window - now end
    else
      local left = now > start and window - (now - start) or window
      if cost > 0 and previous * left + (current + cost) * window > limit * window then
        local room = limit - current - cost
        if room >= 0 then
          wait = start + window - floor(room * window / previous) - now
        else
          wait = start + 2 * window - floor((limit - cost) * window / current) - now
        end
      end
      w[i] = left
    end
    x[i], y[i], z[i] = current, index, previous
  end

  if banned then limit, burst, wait = 0, 0, banned end
  limits[i], bursts[i], ttls[i], waits[i] = limit, burst, ttl, wait
  kinds[i] = algorithm
  if wait ~= 0 and not shadow then allowed = 0 end
end

local reply = { allowed }
for i = 1, n do
  local arg = i * 6 - 4
  local algorithm, limit, wait = kinds[i], limits[i], waits[i]
  local window = tonumber(ARGV[arg + 2])
  local cost = tonumber(ARGV[arg + 5])
  local charged = allowed == 1 and wait == 0 and cost > 0
  local write = charged or mended[i]
  local left, reset = 0, 0

  if algorithm == 'b' then
    local used, at, burst = x[i], y[i], bursts[i]
    if charged then used = used + cost * window end
    left = floor((burst * window - used) / window)
    if used > 0 then reset = at - now + ceil(used / limit) end
    if write then
      local high = floor(used / 4294967296)
      write = char(floor(high / 65536) % 256, floor(high / 256) % 256, high % 256) .. pack4(used) .. pack5(at - EPOCH)
    end
  elseif algorithm == 'l' then
    local used, last, log = x[i], y[i], z[i]
    if charged then
      used = used + cost
      local clock = last > now and last or now
      if last == clock then
        local f, g = byte(log, -2, -1)
        log = sub(log, 1, -8) .. pack_entry(clock, f * 256 + g + cost)
      else
        log, last = log .. pack_entry(clock, cost), clock
      end
    end
    left = limit - used
    if last > 0 then reset = last + window - now end
    if write then write = char(floor(used / 256), used % 256) .. log end
  else
    local current, index, previous = x[i], y[i], z[i]
    if charged then current = current + cost end
    local start = index * window
    if algorithm == 'f' then
      left = limit - current
      reset = start + window - now
    else
      left = floor((limit * window - previous * w[i] - current * window) / window)
      if current > 0 then
        reset = start + 2 * window - now
      elseif previous > 0 then
        reset = start + window - now
      end
    end
    if write then write = pack4(index) .. pack4(current) .. pack4(previous) end
  end

  if write then redis.call('SET', KEYS[i], write, 'PX', ttls[i]) end
  if limit == 0 then reset = 0 end
  if wait > 0 then reset = wait end
  local at = i * 4 - 2
  reply[at], reply[at + 1], reply[at + 2], reply[at + 3] = limit, left > 0 and left or 0, reset, wait
end
return reply
