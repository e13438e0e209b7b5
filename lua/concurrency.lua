-- At most `limit` units held at once. Each is given back by its holder, or free by itself at its deadline.
--
-- KEYS   one sorted set a rule: a member "<slot>:<i>", i from 1, for each unit that the request of that slot holds,
--        under its deadline in ms. The key expires `window` after the last admission or renewal.
-- ARGV   rule: limit, window in ms (from the admission to the deadline), slot (an integer, unlike any other request's).
-- Reply  units left, ms until the earliest deadline, ms until deadlines have left `wanted` units (0: now). Both are
--        upper bounds, since a unit may be given back at any time.
--
-- Outside of this script, a holder gives back with ZREM key <slot>:1 …, and stays on beyond its deadline with
-- ZADD key XX <later deadline> <slot>:1 … and PEXPIRE key <ms until then>.
local tier_usage, add_members = ...

-- By rank, in order of deadline.
local function deadline_at(key, rank)
  return tonumber(redis.call('ZRANGE', key, rank, rank, 'WITHSCORES')[2])
end

local function peek(key, now_us, wanted, rule)
  local limit, window, slot = rule[1], rule[2], rule[3]
  local now = math.floor(now_us / 1000)
  local earliest, used = deadline_at(key, 0), 0
  local has_overdue = earliest and earliest <= now
  if earliest then
    used = redis.call('ZCOUNT', key, string.format('(%.0f', now), '+inf')
  end
  if has_overdue then
    earliest = used > 0 and deadline_at(key, -used) or nil
  end
  local state = { now = now, window = window, slot = slot, has_overdue = has_overdue }
  state.available, state.reply = math.huge, {}
  tier_usage(state, wanted, {
    limit = limit,
    window = window,
    used = used,
    reset_ms = earliest and earliest - now or window,
    freed_after = function(units)
      return (units == 1 and earliest or deadline_at(key, units - 1 - used)) - now
    end,
  })
  return state
end

local function commit(key, state, amount)
  if state.has_overdue then
    redis.call('ZREMRANGEBYSCORE', key, '-inf', string.format('%.0f', state.now))
  end
  add_members(key, state.now + state.window, amount, function(i)
    return string.format('%.0f:%.0f', state.slot, i)
  end)
  redis.call('PEXPIRE', key, string.format('%.0f', state.window))
end

return { peek = peek, commit = commit }
