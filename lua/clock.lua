-- Redis's own clock, so that every isolate judges by the same one.
-- Returns microseconds since the Unix epoch.
local time = redis.call('TIME')
return time[1] * 1000000 + time[2]
