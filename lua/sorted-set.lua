-- An exact sliding-window log on a sorted set: as exact as sliding-window, with about eight times its memory for each
-- unit, for Redis before 6.2, which has no XADD … MINID.
--
-- KEYS   one sorted set a charge; it serves all of the charge's limits. Each unit is a member of its own: its running
--        number, zero-padded so that units of one ms stay in order, under the ms of its admission, rounded up, or of
--        the end of its lease.
--        Numbers have no gaps, so what a window holds is the difference of two. What is remembered of refusals is the
--        member "p", whose score, 1000 * <until ms> + <refusals>, is higher than any date. The key outlasts the newest
--        unit by the longest window, and refusals until then.
-- ARGV   charge: limit, window in ms, and so on for each limit.
-- Reply  for each limit: units left, ms until more are, ms until `wanted` units are (0: now).
--
-- A window is half-open, (now - window, now]: a unit exactly `window` old has gone. Because dates are rounded up and
-- now is rounded down, none goes a microsecond early.
local limit_state, add_members = ...

-- Before Redis 5, a script that has asked the time may write only after this. Upstash answers it with an error.
-- https://github.com/upstash/redis-js/issues/340
if redis.replicate_commands then
  pcall(redis.replicate_commands)
end

local function integer(number)
  return string.format('%.0f', number)
end

local function name_of(number)
  return string.format('%016.0f', number)
end

-- Number and ms of the one unit, or of none, in a reply WITHSCORES.
local function unit_of(reply)
  return tonumber(reply[1]), tonumber(reply[2])
end

local function peek(key, now_us, wanted, from, to, reply)
  local now = math.floor(now_us / 1000)
  local newest = redis.call('ZREVRANGE', key, 0, 1, 'WITHSCORES')
  local refusals, until_ms
  if newest[1] == 'p' then
    refusals, until_ms = newest[2] % 1000, math.floor(newest[2] / 1000)
    newest = { newest[3], newest[4] }
  end
  local last, last_ms = unit_of(newest)
  local state = { now = now, last = last or 0, longest = 0, available = math.huge, reply = reply }
  state.last_ms, state.until_ms = last_ms or 0, until_ms or 0
  for i = from, to, 2 do
    local limit, window = ARGV[i] + 0, ARGV[i + 1] + 0
    local first, first_ms
    if last and last_ms > now - window then
      local since = '(' .. integer(now - window)
      first, first_ms = unit_of(redis.call('ZRANGEBYSCORE', key, since, '+inf', 'WITHSCORES', 'LIMIT', 0, 1))
    end
    limit_state(state, wanted, {
      limit = limit,
      window = window,
      used = first and last - first + 1 or 0,
      reset_ms = first and first_ms + window - now or window,
      freed_after = function(units)
        local ms = units == 1 and first_ms or tonumber(redis.call('ZSCORE', key, name_of(first + units - 1)))
        return ms + window - now
      end,
    })
    state.longest = math.max(state.longest, window)
  end
  return state.available, state, nil, refusals, until_ms
end

local function commit(key, state, amount, now_us, lease_ms, refusals, until_ms)
  local newest_ms = state.last_ms
  if until_ms then
    redis.call('ZADD', key, integer(1000 * until_ms + refusals), 'p')
  else
    -- Time never goes back: if the clock did, units stay longer, never shorter.
    newest_ms, until_ms = math.max(math.ceil(now_us / 1000) + lease_ms, newest_ms), state.until_ms
    add_members(key, newest_ms, amount, function(i)
      return name_of(state.last + i)
    end)
    redis.call('ZREMRANGEBYSCORE', key, '-inf', integer(state.now - state.longest))
  end
  redis.call('EXPIRE', key, math.ceil((math.max(newest_ms + state.longest, until_ms) - state.now) / 1000))
end

return { peek = peek, commit = commit }
