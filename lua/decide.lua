-- One decision over any number of rules: peek at all of them, then charge all of them or none.
--
-- KEYS   one key a rule, each used by one rule only.
-- ARGV   1  mode: "all" grants every permit or none, "partial" as many as fit, "peek" is "all" without the charge
--        2  permits asked for, an integer from 1
--        then for each key: algorithm letter; "enforce" or "shadow"; cost of one permit; units reserved for others,
--        which this decision must leave; n; the rule's n numbers
-- Reply  a flat array of integers: permits granted, Redis's time in ms, then what each rule says of each of its
--        tiers after the decision: units left (reserved ones included), ms until more are, ms until the asked cost
--        fits (0: now).
--
-- Takes the algorithms by letter, each { peek, commit }, and a clock. `peek(key, now_us, wanted, rule)` reads only and
-- returns a state with `available` units and the `reply` triples; `commit(key, state, amount)` is the only writer.
return function(algorithms, clock)
  local mode, permits = ARGV[1], tonumber(ARGV[2])
  local wanted_permits = mode == 'partial' and 1 or permits
  local now_us = clock()

  local rules, granted, cursor = {}, permits, 3
  for i, key in ipairs(KEYS) do
    local algorithm, enforced = algorithms[ARGV[cursor]], ARGV[cursor + 1] == 'enforce'
    local cost, reserved, size = tonumber(ARGV[cursor + 2]), tonumber(ARGV[cursor + 3]), tonumber(ARGV[cursor + 4])
    local numbers = {}
    for n = 1, size do
      numbers[n] = tonumber(ARGV[cursor + 4 + n])
    end
    cursor = cursor + 5 + size

    local state = algorithm.peek(key, now_us, cost * wanted_permits + reserved, numbers)
    local fitting = math.max(0, math.floor((state.available - reserved) / cost))
    if enforced then
      granted = math.min(granted, fitting)
    end
    rules[i] = { algorithm = algorithm, cost = cost, state = state, fitting = fitting }
  end
  if mode ~= 'partial' and granted < permits then
    granted = 0
  end

  local reply = { granted, math.floor(now_us / 1000) }
  for i, key in ipairs(KEYS) do
    local rule = rules[i]
    -- A shadow rule that would have refused is left as it was, as an enforced one is.
    local charged = granted > 0 and mode ~= 'peek' and granted <= rule.fitting
    if charged then
      rule.algorithm.commit(key, rule.state, granted * rule.cost)
    end
    for n, value in ipairs(rule.state.reply) do
      local is_remaining = n % 3 == 1
      reply[#reply + 1] = charged and is_remaining and value - granted * rule.cost or value
    end
  end
  return reply
end
