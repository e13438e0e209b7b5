-- One decision over any number of rules: peek at all of them, then charge all of them or none.
--
-- KEYS   one key a rule, each used by one rule only.
-- ARGV   1  mode: "all" grants every permit or none, "partial" as many as fit, "peek" is "all" without the charge,
--           "charge" charges every permit, whatever is left: what has happened is counted
--        2  permits asked for, an integer from 1
--        3  ms for which the permits may be spent, 0 for now only; they count from the end of that, but in windows that
--           are counted, in which they are spent before these end
--        then for each key: terms; n; the rule's n numbers: limit and window in ms for each tier, and at most one more
-- Terms  the letter of the algorithm, which alone is short for "<letter> enforce requests 1 0": "enforce", "block" (as
--        "enforce", and who is refused stays refused for a while) or "shadow"; what the rule counts, "requests",
--        "failures" (it is then charged by "charge" only) or "identities" (it then holds only if one before it has met
--        an identity never seen); cost of one permit; units reserved for others, which this decision must leave; and
--        with "block" for how many ms it blocks, and after how many refusals within a time as long as its longest
--        window, from the first
-- Reply  a flat array of integers: permits granted, Redis's time in ms, then what each rule says of each of its
--        tiers after the decision: units left (reserved ones included), ms until more are, ms until the asked cost
--        fits (0: now), as it was before a "charge"; and, with "block", ms until its block ends (0: there is none).
--
-- A refusal changes nothing but, with "block", the refusing rule's own key: it remembers how many there were, or until
-- when it is blocked. A refusal for what is reserved is not counted.
--
-- Takes the algorithms by letter, each { peek, commit }, the time in µs, and penalize if a rule may block.
-- `peek(key, now_us, wanted, from, to, reply, blocks)` is told at which places of ARGV the rule's numbers begin and
-- end, and whether it remembers refusals. It reads only, appends its triples to the reply, and returns the units
-- available, a state for `commit`, whether the identity is new if it can tell, and what it last remembered of refusals:
-- their number (0: they led to a block), and the ms until when.
-- `commit(key, state, amount, now_us, lease_ms, refusals, until_ms)` is the only writer. It charges, and keeps what is
-- remembered and has not ended; or it charges 0 and remembers refusals, which costs no admission a command, because
-- they are part of what a peek reads anyway. It may return units that it has charged besides `amount`.
local algorithms, now_us, penalize = ...

-- A local is faster to read than a global, and `+ 0` makes a number of an argument faster than tonumber().
local ARGV, KEYS = ARGV, KEYS
local mode, permits, lease_ms = ARGV[1], ARGV[2] + 0, ARGV[3] + 0
local wanted_permits = mode == 'partial' and 1 or permits

-- Made with room for three tiers of one rule: to make room later takes longer.
local reply = { 0, (now_us - now_us % 1000) / 1000, nil, nil, nil, nil, nil, nil, nil, nil, nil }

-- Most decisions are on one rule of the usual terms. What follows would decide alike, but take longer.
local plain = algorithms[ARGV[4]]
if plain and not KEYS[2] then
  local key = KEYS[1]
  local available, state = plain.peek(key, now_us, wanted_permits, 6, 5 + ARGV[5], reply)
  local granted = permits
  if available < permits and mode ~= 'charge' then
    granted = mode == 'partial' and available or 0
  end
  if granted > 0 and mode ~= 'peek' then
    local amount = granted + (plain.commit(key, state, granted, now_us, lease_ms) or 0)
    for left = 3, #reply, 3 do
      local units = reply[left] - amount
      reply[left] = units > 0 and units or 0
    end
  end
  reply[1] = granted
  return reply
end

local TERMS = '^(%a) (%a+) (%a+) (%d+) (%d+) ?(%d*) ?(%d*)$'

-- What each rule has said: how many permits fit, what its commit needs, what a permit costs, and where in the reply its
-- tiers are.
local votes = {}
local granted, at, has_new_identity = permits, 4, false
for i = 1, #KEYS do
  local terms, from, to = ARGV[at], at + 2, at + 1 + ARGV[at + 1]
  local algorithm, power, counts, cost, reserved = algorithms[terms], 'enforce', 'requests', 1, 0
  local block_ms, after
  if not algorithm then
    algorithm, power, counts, cost, reserved, block_ms, after = terms:match(TERMS)
    algorithm, cost, reserved = algorithms[algorithm], cost + 0, reserved + 0
  end
  local told, fits, state, blocked_ms = #reply, -1, nil, 0
  if counts ~= 'identities' or has_new_identity then
    local wanted = cost * wanted_permits
    local available, is_new, refusals, until_ms
    available, state, is_new, refusals, until_ms =
      algorithm.peek(KEYS[i], now_us, wanted + reserved, from, to, reply, power == 'block')
    fits = math.floor((available - reserved) / cost)
    if power == 'block' then
      local is_refusal = available < wanted and (mode == 'all' or mode == 'partial')
      blocked_ms, refusals, until_ms =
        penalize(refusals, until_ms, is_refusal, reply[2], from, to, block_ms + 0, after + 0)
      if until_ms then
        -- What one rule refuses, nothing admits, so it can be remembered at once.
        algorithm.commit(KEYS[i], state, 0, now_us, 0, refusals, until_ms)
      end
      if blocked_ms > 0 then
        fits = -1
        for retry = told + 3, #reply, 3 do
          reply[retry] = math.max(reply[retry], blocked_ms)
        end
      end
    end
    if mode == 'charge' then
      fits = permits
    elseif fits < granted and power ~= 'shadow' then
      granted = fits
    end
    if counts ~= 'failures' then
      has_new_identity = has_new_identity or is_new
    elseif mode ~= 'charge' then
      -- It may refuse, but nothing has failed yet.
      fits = -1
    end
  else
    -- It refuses nothing, and is charged nothing.
    for limit = from, to - 1, 2 do
      local left = #reply + 1
      reply[left], reply[left + 1], reply[left + 2] = ARGV[limit] + 0, ARGV[limit + 1] + 0, 0
    end
  end
  votes[i] = { fits = fits, state = state, algorithm = algorithm, cost = cost, from = told + 1, to = #reply }
  if power == 'block' then
    reply[#reply + 1] = blocked_ms
  end
  at = to + 1
end
if granted < 0 or granted < permits and mode ~= 'partial' then
  granted = 0
end

reply[1] = granted
if granted > 0 and mode ~= 'peek' then
  for i = 1, #KEYS do
    local vote = votes[i]
    -- A shadow rule that would have refused is left as it was, as an enforced one is.
    if granted <= vote.fits then
      local amount = granted * vote.cost
      amount = amount + (vote.algorithm.commit(KEYS[i], vote.state, amount, now_us, lease_ms) or 0)
      for left = vote.from, vote.to, 3 do
        local units = reply[left] - amount
        reply[left] = units > 0 and units or 0
      end
    end
  end
end
return reply
