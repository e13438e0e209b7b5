-- Adds to a sorted set, under one score, the members that `name_of` gives for 1 to `amount`.

-- Far below what Lua can unpack as arguments of one call (some 8,000, two a member).
local AT_ONCE = 1000

return function(key, score, amount, name_of)
  local shown_score = string.format('%.0f', score)
  for first = 1, amount, AT_ONCE do
    local arguments = {}
    for i = first, math.min(first + AT_ONCE - 1, amount) do
      arguments[#arguments + 1] = shown_score
      arguments[#arguments + 1] = name_of(i)
    end
    redis.call('ZADD', key, unpack(arguments))
  end
end
