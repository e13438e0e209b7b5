-- Budgets whose windows begin at their first use, and end after their length or with the calendar.
-- KEYS, ARGV and Reply are those of counted-windows.lua. A limit by the calendar has the ends around the isolate's
-- clock, of which Redis's own clock chooses. If all are over, the window lasts as long as one of the calendar can.
local counted_windows = ...

return counted_windows(function(now, _, limit)
  for ends in limit:gmatch(' (%d+)') do
    if ends + 0 > now then
      return now, ends + 0
    end
  end
  return now
end)
