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

-- Redis runs this chunk anew for each decision, so what it makes costs time: tables, functions, and locals that they
-- share. An entry is read only where it is needed; `+ 0` makes a number of a text sooner than tonumber() does, and `%d`
-- prints one sooner than `%.0f`, as exactly wherever a C long has 64 bits.

local function ms_and_total(entry)
  local id = entry[1]
  local dash = id:find('-', 1, true)
  return id:sub(1, dash - 1) + 0, id:sub(dash + 1) + 0
end

-- How many of the recent entries (newest first) are younger than `since`.
local function count_younger(recent, since)
  local low, high = 0, #recent
  -- The oldest first: if that is younger, all are.
  local middle = high
  while low < high do
    if ms_and_total(recent[middle]) > since then
      low = middle
    else
      high = middle - 1
    end
    middle = math.ceil((low + high) / 2)
  end
  return low
end

-- When the running total reached `target`: once that entry has left the window, enough units are free. `oldest` are the
-- first entries of a window that holds more than the recent ones.
local function ms_of_total(key, recent, oldest, since, target)
  for i = 1, #oldest do
    local ms, total = ms_and_total(oldest[i])
    if total >= target then
      return ms
    end
  end
  local low, high = since, nil
  for i = 1, #recent do
    local ms, total = ms_and_total(recent[i])
    if total < target then
      low = ms - 1
      break
    end
    high = ms
  end
  -- Totals grow with time, so halve the span: no entry up to `low` has reached the target, the last at `high` has.
  while #oldest > 0 and high - low > 1 do
    local middle = math.floor((low + high) / 2)
    local entry = redis.call('XREVRANGE', key, ('%d'):format(middle), '-', 'COUNT', 1)[1]
    local ms, total = middle, 0
    if entry then
      ms, total = ms_and_total(entry)
    end
    if total >= target then
      high = ms
    else
      low = middle
    end
  end
  return high
end

local function peek(key, now_us, wanted, rule)
  -- Read together with the newest entry. Tiers that hold no more than these need no read of their own.
  local RECENT = 8
  -- Read from a window's start at most, to find in them the entry whose leaving admits a refused cost.
  local OLDEST = 16
  local now = math.floor(now_us / 1000)
  local recent = redis.call('XREVRANGE', key, '+', '-', 'COUNT', RECENT)
  local newest, newest_ms, total = recent[1], 0, 0
  if newest then
    newest_ms, total = ms_and_total(newest)
  end
  local available, longest, reply = math.huge, 0, nil
  for i = 1, #rule, 2 do
    local limit, window = rule[i], rule[i + 1]
    local since = now - window
    local younger = newest_ms > since and count_younger(recent, since) or 0
    local first, oldest = recent[younger], nil
    if younger == RECENT then
      -- Not an exclusive "(since", which would only exclude since-0. A refusal needs `wanted` of them at most.
      oldest = redis.call('XRANGE', key, ('%d'):format(since + 1), '+', 'COUNT', wanted < OLDEST and wanted or OLDEST)
      first = oldest[1]
    end
    local left, reset_ms, retry_ms = limit, window, 0
    if first then
      local first_ms, first_total = ms_and_total(first)
      left = limit - (total - first_total + first[2][2])
      if left < 0 then
        left = 0
      end
      reset_ms = first_ms + window - now
    end
    if wanted > limit then
      retry_ms = window -- It will never fit; configuration refuses such a cost.
    elseif left < wanted then
      retry_ms = ms_of_total(key, recent, oldest or {}, since, total + wanted - limit) + window - now
    end
    if window > longest then
      longest = window
    end
    if left < available then
      available = left
    end
    if i == 1 then
      -- Made at its size: to make room later takes longer.
      reply = { left, reset_ms, retry_ms }
    else
      local n = #reply
      reply[n + 1], reply[n + 2], reply[n + 3] = left, reset_ms, retry_ms
    end
  end
  return {
    available = available,
    reply = reply,
    is_new = not newest,
    now_us = now_us,
    longest = longest,
    newest = newest,
    newest_ms = newest_ms,
    total = total,
  }
end

local function commit(key, state, amount, lease_ms)
  local now_us, longest, newest, newest_ms = state.now_us, state.longest, state.newest, state.newest_ms
  local ms, total = math.ceil(now_us / 1000) + lease_ms, state.total + amount
  -- IDs never go back: after a clock that did, entries stay longer, never shorter.
  if ms < newest_ms then
    ms = newest_ms
  end
  local now = math.floor(now_us / 1000)
  local kept_ms = newest and newest[2][1]
  local is_kept_as_long = newest and kept_ms + 0 == longest
  if not is_kept_as_long then
    kept_ms = ('%d'):format(longest)
  end
  redis.call('XADD', key, 'MINID', ('%d'):format(now - longest + 1), ('%d-%d'):format(ms, total), kept_ms, amount)
  local epoch_ms = math.ceil(2 * longest / 1000) * 1000 - longest
  local epoch = math.floor(ms / epoch_ms)
  if not is_kept_as_long or math.floor(newest_ms / epoch_ms) ~= epoch then
    redis.call('EXPIRE', key, math.ceil(((epoch + 1) * epoch_ms + longest - now) / 1000))
  end
end

return { peek = peek, commit = commit }
