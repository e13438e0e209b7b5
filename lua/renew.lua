-- Moves the deadlines of slots that are still held (concurrency.lua) to a whole window from now.
--
-- KEYS   one key a charge.
-- ARGV   for each key: window in ms; slot; units that it holds.
-- Reply  none.
--
-- Takes the algorithms by letter, of which it needs `c`, and the time in µs.
local algorithms, now_us = ...

local now = math.floor(now_us / 1000)
for i, key in ipairs(KEYS) do
  local window, slot, units = tonumber(ARGV[3 * i - 2]), tonumber(ARGV[3 * i - 1]), tonumber(ARGV[3 * i])
  algorithms.c.renew(key, now, window, slot, units)
end
