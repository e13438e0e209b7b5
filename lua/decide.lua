-- One decision over any number of rules: peek at all of them, then charge all of them or none.
--
-- KEYS   one key a rule, each used by one rule only.
-- ARGV   1  mode: "all" grants every permit or none, "partial" as many as fit, "peek" is "all" without the charge
--        2  permits asked for, an integer from 1
--        3  ms for which the permits may be spent, 0 for now only; they count from the end of that
--        then for each key: algorithm letter; "enforce" or "shadow"; "always" or "new" (the rule holds only if one
--        before it has met a caller never seen); cost of one permit; units reserved for others, which this decision
--        must leave; n; the rule's n numbers
-- Reply  a flat array of integers: permits granted, Redis's time in ms, then what each rule says of each of its
--        tiers after the decision: units left (reserved ones included), ms until more are, ms until the asked cost
--        fits (0: now).
--
-- Takes the algorithms by letter, each { peek, commit }, and a clock. `peek(key, now_us, wanted, rule)` reads only and
-- returns a state with `available` units, the `reply` triples and, if it can tell, whether the caller `is_new`;
-- `commit(key, state, amount, lease_ms)` is the only writer.
local function unused(numbers)
  local state = { available = math.huge, reply = {} }
  for i = 1, #numbers, 2 do
    for _, value in ipairs({ numbers[i], numbers[i + 1], 0 }) do
      state.reply[#state.reply + 1] = value
    end
  end
  return state
end

return function(algorithms, clock)
  local mode, permits, lease_ms = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
  local wanted_permits = mode == 'partial' and 1 or permits
  local now_us = clock()

  local rules, granted, cursor, has_newcomer = {}, permits, 4, false
  for i, key in ipairs(KEYS) do
    local algorithm, enforced = algorithms[ARGV[cursor]], ARGV[cursor + 1] == 'enforce'
    local applies = ARGV[cursor + 2] == 'always' or has_newcomer
    local cost, reserved, size = tonumber(ARGV[cursor + 3]), tonumber(ARGV[cursor + 4]), tonumber(ARGV[cursor + 5])
    local numbers = {}
    for n = 1, size do
      numbers[n] = tonumber(ARGV[cursor + 5 + n])
    end
    cursor = cursor + 6 + size

    local wanted = cost * wanted_permits + reserved
    local state = applies and algorithm.peek(key, now_us, wanted, numbers) or unused(numbers)
    has_newcomer = has_newcomer or state.is_new
    local fitting = math.max(0, math.floor((state.available - reserved) / cost))
    if enforced then
      granted = math.min(granted, fitting)
    end
    rules[i] = { algorithm = algorithm, applies = applies, cost = cost, state = state, fitting = fitting }
  end
  if mode ~= 'partial' and granted < permits then
    granted = 0
  end

  local reply = { granted, math.floor(now_us / 1000) }
  for i, key in ipairs(KEYS) do
    local rule = rules[i]
    -- A shadow rule that would have refused is left as it was, as an enforced one is.
    local charged = rule.applies and granted > 0 and mode ~= 'peek' and granted <= rule.fitting
    if charged then
      rule.algorithm.commit(key, rule.state, granted * rule.cost, lease_ms)
    end
    for n, value in ipairs(rule.state.reply) do
      local is_remaining = n % 3 == 1
      reply[#reply + 1] = charged and is_remaining and value - granted * rule.cost or value
    end
  end
  return reply
end
