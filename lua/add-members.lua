-- Adds to a sorted set, under one score, the members that `name_of` gives for 1 to `amount`: all of them, or with the
-- condition 'NX' those that are not there yet, with 'XX' those that are.

-- Far below what Lua can unpack as arguments of one call (some 8,000, two a member).
local AT_ONCE = 1000

return function(key, score, amount, name_of, condition)
  local shown_score = string.format('%.0f', score)
  for first = 1, amount, AT_ONCE do
    local arguments = { condition }
    for i = first, math.min(first + AT_ONCE - 1, amount) do
      arguments[#arguments + 1] = shown_score
      arguments[#arguments + 1] = name_of(i)
    end
    redis.call('ZADD', key, unpack(arguments))
  end
end
