-- Gives slots back (concurrency.lua), many at once. It may be repeated until it is answered.
--
-- KEYS   one key a release; the same one may come several times.
-- ARGV   for each: slot; units; "known" if the admission was answered, "unknown" if it may still be on
--        its way, in which case it does not count when it arrives.
-- Reply  the number of releases.
--
-- Takes the algorithms by letter, of which it needs `c`, and the time in µs.
local algorithms, now_us = ...

local now = math.floor(now_us / 1000)
for i, key in ipairs(KEYS) do
  local slot, units = tonumber(ARGV[3 * i - 2]), tonumber(ARGV[3 * i - 1])
  algorithms.c.release(key, now, slot, units, ARGV[3 * i] == 'known')
end
return #KEYS
