-- One decision over any number of rules: peek at all of them, then charge all of them or none.
--
-- KEYS   one key a rule, each used by one rule only.
-- ARGV   1  mode: "all" grants every permit or none, "partial" as many as fit, "peek" is "all" without the charge,
--           "charge" charges every permit, whatever is left: what has happened is counted
--        2  permits asked for, an integer from 1
--        3  ms for which the permits may be spent, 0 for now only; they count from the end of that, but in windows that
--           are counted, in which they are spent before these end
--        then for each key: algorithm letter; "enforce", "block" (as "enforce", and who is refused stays refused for a
--        while) or "shadow"; what it counts, "requests", "failures" (the rule
--        is then charged by "charge" only) or "identities" (the rule then holds only if one before it has met an
--        identity never seen); cost of one permit; units reserved for others, which this decision must leave; n; the
--        rule's n numbers: limit and window in ms for each tier, and at most one more; with "block" two others: for how
--        many ms it blocks, and after how many refusals within a time as long as its longest window, from the first
-- Reply  a flat array of integers: permits granted, Redis's time in ms, then what each rule says of each of its
--        tiers after the decision: units left (reserved ones included), ms until more are, ms until the asked cost
--        fits (0: now), as it was before a "charge"; and, with "block", ms until its block ends (0: there is none).
--
-- A refusal changes nothing but, with "block", the refusing rule's own key: it remembers how many there were, or until
-- when it is blocked. A refusal by a block is not counted and does not prolong it, nor does one for what is reserved.
--
-- Takes the algorithms by letter, each { peek, commit }, and the time in µs. `peek(key, now_us, wanted, rule, reply)`
-- reads only, appends its triples to the reply, and returns the units available, a state for `commit`, whether the
-- identity is new if it can tell, and what it last remembered of refusals: their number (0: they led to a block), and
-- the ms until when. `commit(key, state, amount, now_us, lease_ms, refusals, until_ms)` is the only writer. It charges,
-- and keeps what is remembered and has not ended; or it charges 0 and remembers refusals, which costs no admission a
-- command, because they are part of what a peek reads anyway. It may return units that it has charged besides `amount`.
local algorithms, now_us = ...

-- A local is faster to read than a global, and `+ 0` makes a number of an argument faster than tonumber().
local ARGV, KEYS = ARGV, KEYS
local mode, permits = ARGV[1], ARGV[2] + 0
local wanted_permits = mode == 'partial' and 1 or permits

-- Made with room for three tiers of one rule: to make room later takes longer.
local reply = { 0, (now_us - now_us % 1000) / 1000, nil, nil, nil, nil, nil, nil, nil, nil, nil }
-- For each rule how many permits fit, what its commit needs, how many numbers it has, and what a permit costs.
local peeked = { nil, nil, nil, nil }
local granted, cursor, has_new_identity = permits, 4, false
for i = 1, #KEYS do
  local cost, reserved, size = ARGV[cursor + 3] + 0, ARGV[cursor + 4] + 0, ARGV[cursor + 5] + 0
  local rule = { ARGV[cursor + 6] + 0, ARGV[cursor + 7] + 0 }
  for n = 3, size do
    rule[n] = ARGV[cursor + 5 + n] + 0
  end
  local counts, blocks = ARGV[cursor + 2], ARGV[cursor + 1] == 'block'
  local blocked_ms = 0
  if counts ~= 'identities' or has_new_identity then
    local algorithm, told = algorithms[ARGV[cursor]], #reply
    if blocks then
      rule.blocks = true
    end
    local available, state, is_new, refusals, until_ms =
      algorithm.peek(KEYS[i], now_us, cost * wanted_permits + reserved, rule, reply)
    local fits = math.floor((available - reserved) / cost)
    if blocks then
      local now, at = reply[2], cursor + 6 + size
      refusals, until_ms = (refusals or 0) + 0, (until_ms or 0) + 0
      if until_ms > now and refusals == 0 then
        blocked_ms = until_ms - now
      elseif available < cost * wanted_permits and (mode == 'all' or mode == 'partial') then
        -- What one rule refuses, nothing admits, so it can be remembered at once.
        if until_ms <= now then
          refusals = 0
          for n = 2, size, 2 do
            until_ms = math.max(until_ms, now + rule[n])
          end
        end
        refusals = refusals + 1
        if refusals >= ARGV[at + 1] + 0 then
          refusals, blocked_ms = 0, ARGV[at] + 0
          until_ms = now + blocked_ms
        end
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
    elseif fits < granted and ARGV[cursor + 1] ~= 'shadow' then
      granted = fits
    end
    if counts ~= 'failures' then
      has_new_identity = has_new_identity or is_new
    elseif mode ~= 'charge' then
      -- It may refuse, but nothing has failed yet.
      fits = -1
    end
    peeked[4 * i - 3], peeked[4 * i - 2] = fits, state
  else
    -- It refuses nothing, and is charged nothing.
    peeked[4 * i - 3], peeked[4 * i - 2] = -1, false
    for n = 1, size - 1, 2 do
      local told = #reply
      reply[told + 1], reply[told + 2], reply[told + 3] = rule[n], rule[n + 1], 0
    end
  end
  peeked[4 * i - 1], peeked[4 * i] = size, cost
  if blocks then
    reply[#reply + 1] = blocked_ms
    cursor = cursor + 2
  end
  cursor = cursor + 6 + size
end
if granted < 0 or granted < permits and mode ~= 'partial' then
  granted = 0
end

reply[1] = granted
if granted > 0 and mode ~= 'peek' then
  local at = 3
  cursor = 4
  for i = 1, #KEYS do
    local size = peeked[4 * i - 1]
    local next_at = at + 3 * math.floor(size / 2)
    -- A shadow rule that would have refused is left as it was, as an enforced one is.
    if granted <= peeked[4 * i - 3] then
      local amount = granted * peeked[4 * i]
      local more = algorithms[ARGV[cursor]].commit(KEYS[i], peeked[4 * i - 2], amount, now_us, ARGV[3] + 0)
      if more then
        amount = amount + more
      end
      for left = at, next_at - 1, 3 do
        local units = reply[left] - amount
        reply[left] = units > 0 and units or 0
      end
    end
    if ARGV[cursor + 1] == 'block' then
      next_at, cursor = next_at + 1, cursor + 2
    end
    at, cursor = next_at, cursor + 6 + size
  end
end
return reply
