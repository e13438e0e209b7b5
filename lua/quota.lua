-- Budgets whose windows begin at their first use.
-- KEYS, ARGV and Reply are those of counted-windows.lua.
local counted_windows = ...

return counted_windows(function(now)
  return now
end)
