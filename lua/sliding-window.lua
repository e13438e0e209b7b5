-- An exact sliding-window log on a stream, read as prefix sums.
--
-- KEYS   one stream a charge; it serves all of the charge's limits. An entry's ID is <ms>-<total>, the total being all
--        that was ever admitted on this stream, the entry included; its one field holds the entry's own cost, under
--        the longest window (ms) that it is kept for. What a window holds is thus the difference of two totals.
--        What is remembered of refusals is a second field of the newest entry, <until ms> under <refusals>: an
--        admission takes it over, and a refusal adds an entry of cost 0 for it, of which no two follow each other.
-- ARGV   charge: limit, window in ms, and so on for each limit; then how many entries to read at once, the newest
--        among them, which changes what is read, but not what is decided.
-- Reply  for each limit: units left, ms until more are, ms until `wanted` units are (0: now).
--
-- Permits that may still be spent for `lease_ms` are entered as if spent when that has passed, so an entry may be dated
-- ahead. Whenever they are spent before, no window holds more than its limit: at the time of any later decision, all of
-- them that are younger than the window are counted.
--
-- A window is half-open, (now - window, now]: an entry exactly `window` old has gone. Because dates are rounded up and
-- now is rounded down, none goes a microsecond early.
--
-- What has left the longest window is trimmed when the total passes a multiple of 64, or of 8 where that window holds
-- fewer than 64 units: for each single entry, Redis would walk over all that it has marked as deleted, which takes as
-- long as a third of the decision.
--
-- Where its windows began could be named in each entry, which spares most reads of a window's first entry, unless
-- requests come regularly. But it takes nearly half as much memory again for one limit, and more than twice as much for
-- three, and leases spare such callers nearly all calls, at no memory.
--
-- The key lives until a longest window after the end of the epoch in which its newest entry is dated. So it outlasts
-- all entries by that window, whatever the clock does and however far ahead they are dated, and its TTL is only set
-- once an epoch.

-- Redis runs this chunk again for each decision, and each step of Lua takes its time, so nothing is created, called or
-- converted before it is needed. `+ 0` makes a number of a text faster than tonumber(), and `%d` prints one faster than
-- `%.0f`, and as exactly wherever a C long has 64 bits. Redis itself prints numbers that it is handed with `%.17g`,
-- which takes longest.

local function ms_and_total(entry)
  local ms, total = entry[1]:match('(%d+)-(%d+)')
  return ms + 0, total + 0
end

-- Finds the first entry of a window that has admitted something: among the newest ones that were read, of which `n` are
-- known to lie in it, or if it begins before them (nil) in the stream. @return it, and what was read for it
local function find_first(key, since, recent, count, n, at_most)
  if n then
    while n < count and ms_and_total(recent[n + 1]) > since do
      n = n + 1
    end
    if recent[n][2][2] == '0' then
      return recent[n - 1]
    end
    return recent[n]
  end
  -- Not an exclusive "(since", which would only exclude since-0.
  local start = ('%d'):format(since + 1)
  local oldest = redis.call('XRANGE', key, start, '+', 'COUNT', at_most)
  if oldest[1][2][2] ~= '0' then
    return oldest[1], oldest
  end
  if not oldest[2] then
    oldest = redis.call('XRANGE', key, start, '+', 'COUNT', '2')
  end
  return oldest[2], oldest
end

-- Finds the date of the entry with which the total reached `target`.
local function find_date(key, target, low_ms, low_total, oldest, recent, count)
  -- Invariant: low_total < target <= high_total, so it is dated after `low_ms` and no later than `high_ms`. What was
  -- read already narrows that first, from both ends.
  for n = 1, oldest and #oldest or 0 do
    low_ms, low_total = ms_and_total(oldest[n])
    if low_total >= target then
      return low_ms
    end
  end
  local high_ms, high_total
  for n = 1, count do
    local ms, reached = ms_and_total(recent[n])
    if reached < target then
      return high_ms
    end
    high_ms, high_total = ms, reached
  end
  -- A guess that takes traffic for even is tried by turns with half of the span, which bounds the search for any
  -- other.
  local is_guess = true
  while oldest and low_ms < high_ms do
    local missing = target - low_total
    local start, at_most = ('%d-%d'):format(low_ms, low_total + 1), missing
    if missing > 24 then
      at_most = 8
      local share = is_guess and (missing - 4) / (high_total - low_total) or 0.5
      start, is_guess = low_ms + math.max(1, math.floor((high_ms - low_ms) * share)), not is_guess
    end
    local next = redis.call('XRANGE', key, start, '+', 'COUNT', at_most)
    local _, reached = ms_and_total(next[1])
    if reached - next[1][2][2] >= target then
      high_ms, high_total = start - 1, reached - next[1][2][2]
    else
      for n = 1, #next do
        low_ms, low_total = ms_and_total(next[n])
        if low_total >= target then
          return low_ms
        end
      end
    end
  end
  return high_ms
end

local function peek(key, now_us, wanted, from, to, reply, has_penalty)
  local ARGV = ARGV
  local now = (now_us - now_us % 1000) / 1000
  local at_once, is_all = ARGV[to], true
  to = to - 1
  local recent = redis.call('XREVRANGE', key, '+', '-', 'COUNT', at_once)
  local newest, count, newest_ms, total, last_ms = recent[1], 1, 0, 0, 0
  if newest then
    newest_ms, total = ms_and_total(newest)
    last_ms = newest_ms
    if recent[2] then
      count = #recent
      last_ms = ms_and_total(recent[count])
    end
    is_all = count < at_once + 0
  end
  local at_most = wanted > 1 and wanted <= 16 and wanted or has_penalty and '2' or '1'
  local available, longest, kept_ms, held = nil, 0, nil, 0
  local first, first_ms, before, oldest, first_of = nil, 0, 0, nil, 0
  local reported = #reply + 1
  for i = to - 1, from, -2 do
    local limit, window = ARGV[i] + 0, ARGV[i + 1] + 0
    local since = now - window
    if window > longest then
      longest, kept_ms, held = window, ARGV[i + 1], 0
    end
    -- The first entry of a longer window is that of this one too, if it lies in it.
    if not first or window > first_of or first_ms <= since then
      first, oldest = nil, nil
      if newest_ms > since then
        local n = last_ms <= since and 1 or is_all and count or nil
        first, oldest = find_first(key, since, recent, count, n, at_most)
      end
      if first then
        first_ms, before = ms_and_total(first)
        before, first_of = before - first[2][2], window
      end
    end
    local left, reset_ms, retry_ms = limit, window, 0
    if first then
      local used = total - before
      left, reset_ms = limit - used, first_ms + window - now
      if window == longest then
        held = used
      end
    end
    if left < wanted then
      -- Units are left when the entry leaves the window with which the total reached that many less than the limit.
      -- A cost above the limit will never fit; configuration refuses it.
      local over, past = total - limit, window - now
      retry_ms = window
      if wanted <= limit then
        retry_ms = find_date(key, over + wanted, since, before, oldest, recent, count) + past
      end
      if left < 0 then
        -- If more is used than a limit that was lowered, the first entry to leave frees no unit.
        left = 0
        reset_ms = wanted == 1 and retry_ms or find_date(key, over + 1, since, before, oldest, recent, count) + past
      end
    end
    if not available or left < available then
      available = left
    end
    local at = reported + 1.5 * (i - from)
    reply[at], reply[at + 1], reply[at + 2] = left, reset_ms, retry_ms
  end
  local state = { newest, newest_ms, total, longest, kept_ms, held }
  if newest then
    return available, state, false, newest[2][3], newest[2][4]
  end
  return available, state, true
end

local function commit(key, state, amount, now_us, lease_ms, refusals, until_ms)
  local call = redis.call
  local newest, newest_ms, longest, kept_ms = state[1], state[2], state[4], state[5]
  local part = now_us % 1000
  local now = (now_us - part) / 1000
  local before = state[3]
  local ms, total = now + lease_ms, before + amount
  if part > 0 then
    ms = ms + 1
  end
  -- IDs never go back: if the clock did, entries stay longer, never shorter.
  if ms < newest_ms then
    ms = newest_ms
  end
  local is_refusal, is_kept_as_long = until_ms, false
  if newest then
    local fields = newest[2]
    is_kept_as_long = fields[1] == kept_ms
    if is_refusal then
      -- The total stays, so the date must grow.
      if ms == newest_ms then
        ms = ms + 1
      end
    elseif fields[4] and fields[4] + 0 > now then
      refusals, until_ms = fields[3], fields[4] + 0
    end
  end
  local id, cost = ('%d-%d'):format(ms, total), amount == 1 and '1' or ('%d'):format(amount)
  local together = state[6] < 64 and 8 or 64
  if until_ms then
    local ends = ('%d'):format(until_ms)
    call('XADD', key, 'MINID', ('%d'):format(now - longest + 1), id, kept_ms, cost, refusals, ends)
    if is_refusal and newest and newest[2][2] == '0' then
      call('XDEL', key, newest[1])
    end
  elseif newest and before % together + amount >= together then
    call('XADD', key, 'MINID', ('%d'):format(now - longest + 1), id, kept_ms, cost)
  else
    call('XADD', key, id, kept_ms, cost)
  end
  local epoch_ms = longest + -2 * longest % 1000
  local epoch_start = ms - ms % epoch_ms
  if not is_kept_as_long or newest_ms < epoch_start or is_refusal then
    local end_ms = math.max(epoch_start + epoch_ms + longest, until_ms or 0)
    call('EXPIRE', key, ('%d'):format(math.ceil((end_ms - now) / 1000)))
  end
end

return { peek = peek, commit = commit }
