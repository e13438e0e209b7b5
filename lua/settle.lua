-- Makes up the differences between what decisions have charged and what the requests really cost.
--
-- KEYS   one key a charge, each used by one charge only.
-- ARGV   1  when it was charged, by Redis's clock, in ms
--        then for each key: algorithm letter; units charged; difference in units, below 0 to give back; n; the
--        charge's n numbers
-- Reply  none.
--
-- Takes the algorithms by letter, each with `settle(key, now_us, charged_ms, difference, from, to, charged)`, which is
-- told where in ARGV the charge's numbers begin and end, and the time in µs.
-- Nothing is given back below zero used; the caller must not repeat a call.
local algorithms, now_us = ...

local charged_ms = tonumber(ARGV[1])
local cursor = 2
for _, key in ipairs(KEYS) do
  local algorithm = algorithms[ARGV[cursor]]
  local charged, difference, size = ARGV[cursor + 1] + 0, ARGV[cursor + 2] + 0, ARGV[cursor + 3] + 0
  local from, to = cursor + 4, cursor + 3 + size
  algorithm.settle(key, now_us, charged_ms, difference, from, to, charged)
  cursor = to + 1
end
