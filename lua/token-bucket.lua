-- A bucket that holds `burst` units and is refilled continuously, by `limit` units a window (GCRA).
--
-- KEYS   one string a charge, "<us>:<fraction>:<limit>:<window us>": the moment when the bucket is full again, in µs
--        and a fraction of one over `limit`, which is exact and so never drifts; and the rate it was computed with.
--        What is remembered of refusals follows: ":<refusals>:<until ms>". The key expires at the later of these
--        moments.
-- ARGV   charge: limit, window in ms, burst (the limit if left out). burst * window in µs is at most 2^52.
-- Reply  units left, ms until one more is (of a full bucket: until one would be), ms until `wanted` units are (0: now).
--
-- A bucket is refilled at the rate it was last charged by. Its first charge by another rate rounds what it lacks up to
-- whole units: a raised limit takes effect within one unit's time, and a changed one never gives anything away.
local limit_state = ...

local ceil, floor, fmod = math.ceil, math.floor, math.fmod

local function read_bucket(key)
  local text = redis.call('GET', key)
  if not text then
    return nil
  end
  local us, fraction, limit, window_us, penalty = string.match(text, '^(%d+):(%d+):(%d+):(%d+)(.*)$')
  us, fraction, limit, window_us = tonumber(us), tonumber(fraction), tonumber(limit), tonumber(window_us)
  local bucket = { us = us, fraction = fraction, limit = limit, window_us = window_us }
  if penalty ~= '' then
    local refusals, until_ms = string.match(penalty, '^:(%d+):(%d+)$')
    bucket.refusals, bucket.until_ms = tonumber(refusals), tonumber(until_ms)
  end
  return bucket
end

-- The first µs at which the bucket lacks no more than `units` of being full.
local function us_of_lack(bucket, units)
  local numerator = units * bucket.window_us
  local fraction = fmod(numerator, bucket.limit)
  local us = bucket.us - (numerator - fraction) / bucket.limit
  return bucket.fraction > fraction and us + 1 or us
end

-- Whole units that the bucket lacks of `burst`, rounded up.
local function lacking(bucket, burst, now_us)
  -- After the clock went back or the burst was lowered, it may lack more than it holds; the product below is then not
  -- exact.
  if us_of_lack(bucket, burst - 1) > now_us then
    return burst
  end
  return ceil(((bucket.us - now_us) * bucket.limit + bucket.fraction) / bucket.window_us)
end

local function peek(key, now_us, wanted, from, to, reply)
  local limit, window = ARGV[from] + 0, ARGV[from + 1] + 0
  local burst = to > from + 1 and ARGV[from + 2] + 0 or limit
  local full = { us = now_us, fraction = 0, limit = limit, window_us = window * 1000 }
  local bucket = read_bucket(key)
  local refusals, until_ms
  if bucket then
    refusals, until_ms = bucket.refusals, bucket.until_ms
  end
  if not bucket or us_of_lack(bucket, 0) <= now_us then
    bucket = full
  end
  local lack = lacking(bucket, burst, now_us)
  local function ms_until_freed(units)
    return ceil((us_of_lack(bucket, lack - units) - now_us) / 1000)
  end
  local state = { now_us = now_us, bucket = bucket, full = full, lack = lack, available = math.huge, reply = reply }
  state.refusals, state.until_ms = refusals, until_ms
  limit_state(state, wanted, {
    limit = burst,
    window = window,
    used = lack,
    reset_ms = ms_until_freed(1),
    freed_after = ms_until_freed,
  })
  return state.available, state, nil, refusals, until_ms
end

-- Puts off the moment when the bucket is full, or brings it nearer, by units times the window in µs.
local function write(key, bucket, owed, now_us, refusals, until_ms)
  local numerator = owed + bucket.fraction
  local fraction = fmod(numerator, bucket.limit) + 0 -- Not -0, which would be written as such.
  if fraction < 0 then
    fraction = fraction + bucket.limit
  end
  local us = bucket.us + (numerator - fraction) / bucket.limit
  local text = string.format('%.0f:%.0f:%.0f:%.0f', us, fraction, bucket.limit, bucket.window_us)
  -- Until the first whole ms at which the bucket is full, from the whole ms that Redis counts by.
  local now = floor(now_us / 1000)
  local ttl = ceil((us + (fraction > 0 and 1 or 0)) / 1000) - now
  if until_ms and until_ms > now then
    text = string.format('%s:%.0f:%.0f', text, refusals, until_ms)
    ttl = math.max(ttl, until_ms - now)
  end
  if ttl > 0 then
    redis.call('SET', key, text, 'PX', string.format('%.0f', ttl))
  else
    redis.call('DEL', key)
  end
end

-- Returns the units charged besides: those refilled while a lease lasts, as far as the bucket has room for them. What
-- is leased may be spent at the end, which must leave no more in the bucket than if it had been taken then.
local function commit(key, state, amount, _, lease_ms, refusals, until_ms)
  local bucket, full = state.bucket, state.full
  if until_ms then
    write(key, bucket, 0, state.now_us, refusals, until_ms)
    return
  end
  local forfeited = 0
  if lease_ms > 0 then
    local refilled = ceil(lease_ms * 1000 * full.limit / full.window_us)
    forfeited = math.max(0, refilled - math.max(0, state.lack - 1))
    amount = amount + forfeited
  end
  if bucket.limit ~= full.limit or bucket.window_us ~= full.window_us then
    bucket, amount = full, state.lack + amount
  end
  write(key, bucket, amount * bucket.window_us, state.now_us, state.refusals, state.until_ms)
  return forfeited
end

local function settle(key, now_us, charged_ms, difference, from, _, charged)
  local limit, window_us = ARGV[from] + 0, ARGV[from + 1] * 1000
  local bucket = read_bucket(key)
  local owed
  if difference > 0 and not bucket then
    -- Of a bucket that is full again, or was deleted, nothing is left: it is as if this charge had been its first.
    bucket = { us = (charged_ms + 1) * 1000, fraction = 0, limit = limit, window_us = window_us }
    owed = (charged + difference) * window_us
    if bucket.us + owed / limit <= now_us then
      return -- As much has been refilled since.
    end
  elseif difference > 0 then
    owed = difference * bucket.window_us
  else
    if not bucket or us_of_lack(bucket, 0) <= now_us then
      return -- Full again: what was charged has been refilled.
    end
    -- What may have been refilled since the charge, at its rate or another, must not be given back once more.
    local rate = math.max(bucket.limit, ceil(limit * bucket.window_us / window_us))
    owed = math.min(0, difference * bucket.window_us + math.max(0, now_us - charged_ms * 1000) * rate)
  end
  write(key, bucket, owed, now_us, bucket.refusals, bucket.until_ms)
end

return { peek = peek, commit = commit, settle = settle }
