-- Redis's own clock, so that every isolate judges by the same one.
-- Returns a function that answers microseconds since the Unix epoch.
return function()
  local time = redis.call('TIME')
  return time[1] * 1000000 + time[2]
end
