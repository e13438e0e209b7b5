-- Makes up the differences between what decisions have charged and what the requests really cost.
--
-- KEYS   one key a charge, each used by one charge only.
-- ARGV   1  when it was charged, by Redis's clock, in ms
--        then for each key: algorithm letter; units charged; difference in units, below 0 to give back; n; the
--        charge's n numbers
-- Reply  for each key 1, or 0 if nothing of what was charged is left to correct.
--
-- Takes the algorithms by letter, each with `settle(key, now_us, charged_ms, difference, from, to, charged)`, which is
-- told where in ARGV the charge's numbers begin and end, and the time in µs.
-- Nothing is given back below zero used; the caller must not repeat a call.
local algorithms, now_us = ...

local charged_ms = tonumber(ARGV[1])
local reply, cursor = {}, 2
for i, key in ipairs(KEYS) do
  local algorithm = algorithms[ARGV[cursor]]
  local charged, difference, size = ARGV[cursor + 1] + 0, ARGV[cursor + 2] + 0, ARGV[cursor + 3] + 0
  local from, to = cursor + 4, cursor + 3 + size
  reply[i] = algorithm.settle(key, now_us, charged_ms, difference, from, to, charged) and 1 or 0
  cursor = to + 1
end
return reply
