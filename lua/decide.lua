-- One decision over any number of charges: peeks at all of them, then charges all of them or none.
--
-- KEYS   one for each charge, each used by one charge only
-- ARGV   1  action: "take" grants every permit or none, "take-up-to" as many as fit, "peek" answers as "take" and
--           charges nothing, "record" charges every permit, whatever remains: it counts what has happened
--        2  permits requested, an integer from 1
--        3  ms for which the permits may be spent, 0 for now only. They count from the end of that; in counted windows,
--           which end after it, they count at once
--        then for each key: terms; n; n numbers: maximum and window in ms of each limit, and at most one more
-- Terms  "<letter> <policy mode> <counts> <cost> <reserved> [<penalty ms> <after>]":
--        letter of the algorithm; alone, it is short for "<letter> enforce requests 1 0"
--        policy mode: "enforce"; "penalty", which is "enforce" with a penalty; or "shadow", which refuses nothing
--        counts: "requests"; "failures", charged by "record" only; or "new-identities", which applies only if a charge
--        before it has met an identity never seen
--        cost of one permit; units reserved for others, which this decision must leave
--        with "penalty": the ms of a penalty, and the number of refusals that lead to it, within a time as long as the
--        longest window that begins with the first of them
-- Reply  a flat array of integers: permits granted, Redis's time in ms, then for each limit of each charge after the
--        decision: units remaining (reserved ones included), ms until more are, ms until the requested cost fits (0:
--        now; before the charge, for "record"); and after a charge with "penalty", ms until its penalty ends (0: none)
--
-- A refusal changes nothing but, with "penalty", the key of the charge that refuses: it records how many refusals there
-- were, or until when the penalty lasts. A refusal because of reserved units is not recorded.
--
-- Takes the algorithms by letter, each { peek, commit }, the time in µs, and penalize if a charge may have a penalty.
-- `peek(key, now_us, wanted, from, to, reply, has_penalty)` gets the places in ARGV at which the charge's numbers begin
-- and end, and whether it records refusals. It only reads, appends its triples to the reply, and returns the units
-- available, a state for `commit`, whether the identity is new if it can tell, and what is recorded of refusals: their
-- number (0: they led to a penalty), and the ms until when.
-- `commit(key, state, amount, now_us, lease_ms, refusals, until_ms)` is the only writer. It charges, and keeps a
-- record of refusals that has not ended; or it charges 0 and records refusals. An admission needs no command for them,
-- because they are part of what a peek reads. It may return units that it has charged besides `amount`.
local algorithms, now_us, penalize = ...

-- A local is faster to read than a global, and `+ 0` makes a number of an argument faster than tonumber().
local ARGV, KEYS = ARGV, KEYS
local action, permits, lease_ms = ARGV[1], ARGV[2] + 0, ARGV[3] + 0
local wanted_permits = action == 'take-up-to' and 1 or permits

-- Made with room for three limits of one charge: to make room later takes longer.
local reply = { 0, (now_us - now_us % 1000) / 1000, nil, nil, nil, nil, nil, nil, nil, nil, nil }

-- Most decisions are on one charge of the usual terms. What follows would decide alike, but take longer.
local plain = algorithms[ARGV[4]]
if plain and not KEYS[2] then
  local key = KEYS[1]
  local available, state = plain.peek(key, now_us, wanted_permits, 6, 5 + ARGV[5], reply)
  local granted = permits
  if available < permits and action ~= 'record' then
    granted = action == 'take-up-to' and available or 0
  end
  if granted > 0 and action ~= 'peek' then
    local amount = granted + (plain.commit(key, state, granted, now_us, lease_ms) or 0)
    for left = 3, #reply, 3 do
      local units = reply[left] - amount
      reply[left] = units > 0 and units or 0
    end
  end
  reply[1] = granted
  return reply
end

local TERMS = '^(%a) (%a+) ([%a-]+) (%d+) (%d+) ?(%d*) ?(%d*)$'

-- What each charge has said: how many permits fit, what its commit needs, what a permit costs, and where in the reply
-- its limits are.
local evaluations = {}
local granted, at, has_new_identity = permits, 4, false
for i = 1, #KEYS do
  local terms, from, to = ARGV[at], at + 2, at + 1 + ARGV[at + 1]
  local algorithm, policy_mode, counts, cost, reserved = algorithms[terms], 'enforce', 'requests', 1, 0
  local duration_ms, after
  if not algorithm then
    algorithm, policy_mode, counts, cost, reserved, duration_ms, after = terms:match(TERMS)
    algorithm, cost, reserved = algorithms[algorithm], cost + 0, reserved + 0
  end
  local reported, fits, state, penalty_ms = #reply, -1, nil, 0
  if counts ~= 'new-identities' or has_new_identity then
    local wanted = cost * wanted_permits
    local available, is_new, refusals, until_ms
    available, state, is_new, refusals, until_ms =
      algorithm.peek(KEYS[i], now_us, wanted + reserved, from, to, reply, policy_mode == 'penalty')
    fits = math.floor((available - reserved) / cost)
    if policy_mode == 'penalty' then
      local is_refusal = available < wanted and (action == 'take' or action == 'take-up-to')
      penalty_ms, refusals, until_ms =
        penalize(refusals, until_ms, is_refusal, reply[2], from, to, duration_ms + 0, after + 0)
      if until_ms then
        -- What one charge refuses, nothing admits, so it can be remembered at once.
        algorithm.commit(KEYS[i], state, 0, now_us, 0, refusals, until_ms)
      end
      if penalty_ms > 0 then
        fits = -1
        for retry = reported + 3, #reply, 3 do
          reply[retry] = math.max(reply[retry], penalty_ms)
        end
      end
    end
    if action == 'record' then
      fits = permits
    elseif fits < granted and policy_mode ~= 'shadow' then
      granted = fits
    end
    if counts ~= 'failures' then
      has_new_identity = has_new_identity or is_new
    elseif action ~= 'record' then
      -- It may refuse, but nothing has failed yet.
      fits = -1
    end
  else
    -- It refuses nothing, and is charged nothing.
    for limit = from, to - 1, 2 do
      local left = #reply + 1
      -- A limit by the calendar is followed by the ends of its windows.
      reply[left], reply[left + 1], reply[left + 2] = ARGV[limit]:match('%d+') + 0, ARGV[limit + 1] + 0, 0
    end
  end
  evaluations[i] = { fits = fits, state = state, algorithm = algorithm, cost = cost, from = reported + 1, to = #reply }
  if policy_mode == 'penalty' then
    reply[#reply + 1] = penalty_ms
  end
  at = to + 1
end
if granted < 0 or granted < permits and action ~= 'take-up-to' then
  granted = 0
end

reply[1] = granted
if granted > 0 and action ~= 'peek' then
  for i = 1, #KEYS do
    local evaluation = evaluations[i]
    -- A shadow charge that would have refused is left as it was, as an enforced one is.
    if granted <= evaluation.fits then
      local amount = granted * evaluation.cost
      amount = amount + (evaluation.algorithm.commit(KEYS[i], evaluation.state, amount, now_us, lease_ms) or 0)
      for left = evaluation.from, evaluation.to, 3 do
        local units = reply[left] - amount
        reply[left] = units > 0 and units or 0
      end
    end
  end
end
return reply
