-- Windows aligned to the clock: up to twice the limit can pass around the moment at which one ends.
-- KEYS, ARGV and Reply are those of counted-windows.lua.
local counted_windows = ...

return counted_windows(function(now, window)
  return now - now % window
end)
