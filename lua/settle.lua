-- Makes up the differences between what decisions have charged and what the requests really cost.
--
-- KEYS   one key a charge, each used by one charge only.
-- ARGV   1  when it was charged, by Redis's clock, in ms
--        then for each key: algorithm letter; difference in units, below 0 to give back; n; the charge's n numbers
-- Reply  for each key 1, or 0 if nothing of what was charged is left to correct.
--
-- Takes the algorithms by letter, each with `settle(key, now_us, charged_ms, difference, from, to)`, which is told
-- where in ARGV the charge's numbers begin and end, and the time in µs.
-- Nothing is given back below zero used; the caller must not repeat a call.
local algorithms, now_us = ...

local charged_ms = tonumber(ARGV[1])
local reply, cursor = {}, 2
for i, key in ipairs(KEYS) do
  local algorithm = algorithms[ARGV[cursor]]
  local difference, size = tonumber(ARGV[cursor + 1]), tonumber(ARGV[cursor + 2])
  local from, to = cursor + 3, cursor + 2 + size
  reply[i] = algorithm.settle(key, now_us, charged_ms, difference, from, to) and 1 or 0
  cursor = to + 1
end
return reply
