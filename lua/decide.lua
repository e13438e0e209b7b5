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
  local state = { available = -1, reply = {} }
  for i = 1, #numbers, 2 do
    for _, value in ipairs({ numbers[i], numbers[i + 1], 0 }) do
      state.reply[#state.reply + 1] = value
    end
  end
  return state
end

return function(algorithms, clock)
  -- `+ 0` makes a number of an argument sooner than tonumber() does.
  local mode, permits = ARGV[1], ARGV[2] + 0
  local wanted_permits = mode == 'partial' and 1 or permits
  local now_us = clock()

  -- Made with room for one rule of one tier: to make room later takes longer.
  local reply, states = { 0, math.floor(now_us / 1000), 0, 0, 0 }, { false }
  local granted, cursor, has_newcomer = permits, 4, false
  for i = 1, #KEYS do
    local cost, reserved, size = ARGV[cursor + 3] + 0, ARGV[cursor + 4] + 0, ARGV[cursor + 5] + 0
    local numbers = { ARGV[cursor + 6] + 0, ARGV[cursor + 7] + 0 }
    for n = 3, size do
      numbers[n] = ARGV[cursor + 5 + n] + 0
    end
    local state
    if ARGV[cursor + 2] == 'always' or has_newcomer then
      state = algorithms[ARGV[cursor]].peek(KEYS[i], now_us, cost * wanted_permits + reserved, numbers)
      has_newcomer = has_newcomer or state.is_new
      local fitting = math.floor((state.available - reserved) / cost)
      if fitting < granted and ARGV[cursor + 1] == 'enforce' then
        granted = fitting
      end
      -- In permits from here on.
      state.available = fitting
    else
      -- It refuses nothing, and is charged nothing.
      state = unused(numbers)
    end
    states[i] = state
    cursor = cursor + 6 + size
  end
  if granted < 0 or granted < permits and mode ~= 'partial' then
    granted = 0
  end

  reply[1] = granted
  local length = 2
  cursor = 4
  for i = 1, #KEYS do
    local state, charge = states[i], 0
    local told = state.reply
    -- A shadow rule that would have refused is left as it was, as an enforced one is.
    if granted > 0 and granted <= state.available and mode ~= 'peek' then
      charge = granted * ARGV[cursor + 3]
      algorithms[ARGV[cursor]].commit(KEYS[i], state, charge, ARGV[3] + 0)
    end
    for n = 1, #told, 3 do
      reply[length + 1], reply[length + 2], reply[length + 3] = told[n] - charge, told[n + 1], told[n + 2]
      length = length + 3
    end
    cursor = cursor + 6 + ARGV[cursor + 5]
  end
  return reply
end
