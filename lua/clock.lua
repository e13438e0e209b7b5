-- Redis's own clock, so that every isolate judges by the same one.
-- Returns a function that answers microseconds since the Unix epoch.
return function()
  local time = redis.call('TIME')
  return tonumber(time[1]) * 1000000 + tonumber(time[2])
end
