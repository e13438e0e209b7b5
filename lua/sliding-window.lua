-- An exact sliding-window log on a stream, read as prefix sums.
--
-- KEYS   one stream a rule; it serves all of the rule's tiers. An entry's ID is <ms>-<total>, the total being all
--        that was ever admitted on this stream, the entry included; its one field holds the entry's own cost, under
--        the longest window (ms) that it is kept for. What a window holds is thus the difference of two totals.
-- ARGV   rule: limit, window in ms, and so on for each tier.
-- Reply  for each tier: units left, ms until more are, ms until `wanted` units are (0: now).
--
-- Permits that may still be spent for `lease_ms` are entered as if spent when that has passed, so an entry may be dated
-- ahead. Whenever they are spent before, no window holds more than its limit: at the time of any later decision, all of
-- them that are younger than the window are counted.
--
-- A window is half-open, (now - window, now]: an entry exactly `window` old has gone. Rounded as they are, dates up and
-- now down, none goes a microsecond earlier.
--
-- The key lives until a longest window after the end of the epoch in which its newest entry is dated. So it outlasts
-- all entries by that window, whatever the clock does and however far ahead they are dated, and its TTL is only set
-- once an epoch.

-- Entries read together with the last one. Tiers that hold no more than these need no read of their own.
local RECENT = 8
-- Entries read from a window's start at most, to find in them the one whose leaving admits a refused cost.
local OLDEST = 16

local floor, ceil, min, max = math.floor, math.ceil, math.min, math.max

local function integer(number)
  return string.format('%.0f', number)
end

-- Replies are read one by one, when they are needed: most never are.
local function entry_of(reply)
  if not reply.ms then
    local ms, total = string.match(reply[1], '^(%d+)%-(%d+)$')
    reply.ms, reply.total = tonumber(ms), tonumber(total)
    reply.kept_ms, reply.cost = reply[2][1], tonumber(reply[2][2])
  end
  return reply
end

-- Index of the oldest of the recent entries (newest first) that is younger than `since`; 0 if none is.
local function oldest_recent(recent, since)
  local low, high = 0, #recent
  while low < high do
    local middle = ceil((low + high) / 2)
    if entry_of(recent[middle]).ms > since then
      low = middle
    else
      high = middle - 1
    end
  end
  return low
end

-- The first entry of the window, and then, if they were read anyway, those that follow it, oldest first.
local function read_window(key, recent, since, wanted)
  local index = oldest_recent(recent, since)
  if index == RECENT then
    -- Not an exclusive "(since", which would only exclude since-0. A refusal needs `wanted` of them at most.
    return redis.call('XRANGE', key, integer(since + 1), '+', 'COUNT', min(wanted, OLDEST))
  end
  local oldest = {}
  for i = index, 1, -1 do
    oldest[#oldest + 1] = recent[i]
  end
  return oldest
end

-- When the running total reached `target`: once that entry has left the window, enough units are free.
local function ms_of_total(key, recent, oldest, since, target)
  for _, reply in ipairs(oldest) do
    if entry_of(reply).total >= target then
      return reply.ms
    end
  end
  local low, high = since, recent[1].ms
  for _, reply in ipairs(recent) do
    if entry_of(reply).total < target then
      low = reply.ms - 1
      break
    end
    high = reply.ms
  end
  -- Totals grow with time, so halve the span: no entry up to `low` has reached the target, the last at `high` has.
  while high - low > 1 do
    local middle = floor((low + high) / 2)
    local reply = redis.call('XREVRANGE', key, integer(middle), '-', 'COUNT', 1)[1]
    if reply and entry_of(reply).total >= target then
      high = reply.ms
    else
      low = middle
    end
  end
  return high
end

local function peek(key, now_us, wanted, rule)
  local now = floor(now_us / 1000)
  local recent = redis.call('XREVRANGE', key, '+', '-', 'COUNT', RECENT)
  local last = recent[1] and entry_of(recent[1])
  local state = { now = now, date = ceil(now_us / 1000), last = last, is_new = not last, longest = 0 }
  state.available, state.reply = math.huge, {}
  for i = 1, #rule, 2 do
    local limit, window = rule[i], rule[i + 1]
    local oldest = read_window(key, recent, now - window, wanted)
    local first = oldest[1] and entry_of(oldest[1])
    local used = first and last.total - first.total + first.cost or 0
    local left = max(limit - used, 0)
    local retry = 0
    if wanted > limit then
      retry = window -- It will never fit; configuration refuses such a cost.
    elseif left < wanted then
      local target = last.total + wanted - limit
      retry = ms_of_total(key, recent, oldest, now - window, target) + window - now
    end
    state.longest = max(state.longest, window)
    state.available = min(state.available, left)
    local reply = state.reply
    reply[#reply + 1] = left
    reply[#reply + 1] = first and first.ms + window - now or window
    reply[#reply + 1] = retry
  end
  return state
end

local function commit(key, state, amount, lease_ms)
  local now, last, longest = state.now, state.last, state.longest
  local ms, total, kept_ms = state.date + lease_ms, amount, integer(longest)
  if last then
    -- IDs never go back: after a clock that did, entries stay longer, never shorter.
    ms, total = max(ms, last.ms), last.total + amount
  end
  redis.call('XADD', key, 'MINID', integer(now - longest + 1), integer(ms) .. '-' .. integer(total), kept_ms, amount)
  local epoch_ms = ceil(2 * longest / 1000) * 1000 - longest
  local epoch = floor(ms / epoch_ms)
  if not last or last.kept_ms ~= kept_ms or floor(last.ms / epoch_ms) ~= epoch then
    redis.call('EXPIRE', key, ceil(((epoch + 1) * epoch_ms + longest - now) / 1000))
  end
end

return { peek = peek, commit = commit }
