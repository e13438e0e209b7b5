-- At most `limit` units held at once. Each is given back by its holder, or frees itself at its deadline.
--
-- KEYS   one sorted set a charge: a member "<slot>:<i>", i from 1, for each unit that the request of that slot holds,
--        under its deadline in ms; and as marks, under minus the ms until which they stand, members that must not come
--        to be held. The key outlasts all deadlines and marks, whatever clocks and windows did.
-- ARGV   charge: limit, window in ms (from the admission to the deadline), slot (an integer, unlike any other
--        request's).
-- Reply  units left, ms until the earliest deadline, ms until deadlines have left `wanted` units (0: now). Both are
--        upper bounds, since a unit may be given back at any time.
--
-- A release for an admission that got no answer may overtake it. It leaves a mark, which the admission then finds in
-- its place. An ordinary release is a ZREM outside this script.
local limit_state, add_members = ...

-- How long an admission may be on its way: longer than a request lives after its answer, 30 s, and its calls with it.
local LONGEST_WAY_MS = 60000

-- Far below what Lua can unpack as arguments of one call (some 8,000).
local AT_ONCE = 4000

local function integer(number)
  return string.format('%.0f', number)
end

local function members_of(slot)
  return function(i)
    return integer(slot) .. ':' .. integer(i)
  end
end

-- By rank, in order of deadline.
local function deadline_at(key, rank)
  return tonumber(redis.call('ZRANGE', key, rank, rank, 'WITHSCORES')[2])
end

local function peek(key, now_us, wanted, from, _, reply)
  local limit, window, slot = ARGV[from] + 0, ARGV[from + 1] + 0, ARGV[from + 2]
  local now = math.floor(now_us / 1000)
  local earliest, used = deadline_at(key, 0), 0
  local is_missing = not earliest
  -- Overdue units and marks.
  local has_others = earliest and earliest <= now
  if earliest then
    used = redis.call('ZCOUNT', key, '(' .. integer(now), '+inf')
  end
  if has_others then
    earliest = used > 0 and deadline_at(key, -used) or nil
  end
  local state = { now = now, window = window, slot = slot, is_missing = is_missing, has_others = has_others }
  state.available, state.reply = math.huge, reply
  limit_state(state, wanted, {
    limit = limit,
    window = window,
    used = used,
    reset_ms = earliest and earliest - now or window,
    freed_after = function(units)
      return (units == 1 and earliest or deadline_at(key, units - 1 - used)) - now
    end,
  })
  return state.available, state
end

-- Overdue units, and marks that have stood long enough, lie between the others.
local function remove_past(key, now)
  redis.call('ZREMRANGEBYSCORE', key, integer(-now), integer(now))
end

-- Makes the key live for at least this many ms. Setting twice that spares most later calls from setting it again.
local function keep(key, lasts, is_missing)
  if is_missing or redis.call('PTTL', key) < lasts then
    redis.call('PEXPIRE', key, integer(2 * lasts))
  end
end

local function commit(key, state, amount)
  -- This comes first: a full Redis refuses it, but not once a script has written anything.
  add_members(key, state.now + state.window, amount, members_of(state.slot), 'NX')
  if state.has_others then
    remove_past(key, state.now)
  end
  keep(key, state.window, state.is_missing)
end

local function remove_members(key, amount, member_of)
  for first = 1, amount, AT_ONCE do
    local members = {}
    for i = first, math.min(first + AT_ONCE - 1, amount) do
      members[#members + 1] = member_of(i)
    end
    redis.call('ZREM', key, unpack(members))
  end
end

-- Has an effect once, however often it is called. `is_known`: the admission was answered, so it needs no mark.
local function release(key, now, slot, units, is_known)
  local member_of = members_of(slot)
  if is_known then
    remove_members(key, units, member_of)
    return
  end
  add_members(key, -(now + LONGEST_WAY_MS), units, member_of)
  remove_past(key, now)
  keep(key, LONGEST_WAY_MS)
end

-- Moves the deadline of units that are still held. Only a request that was answered renews, so there is no mark.
local function renew(key, now, window, slot, units)
  add_members(key, now + window, units, members_of(slot), 'XX')
  keep(key, window)
end

return { peek = peek, commit = commit, release = release, renew = renew }
