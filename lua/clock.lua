-- Redis's own clock, so that every isolate judges by the same one.
-- Returns a function that answers microseconds since the Unix epoch.
return function()
  -- Before Redis 5, a script that has asked the time may write only after this.
  if redis.replicate_commands then
    redis.replicate_commands()
  end
  local time = redis.call('TIME')
  return tonumber(time[1]) * 1000000 + tonumber(time[2])
end
