-- Sets a time to live where there is none.
--
-- KEYS   those of by-ttl.lua.
-- ARGV   that of by-ttl.lua; time to live in ms.
-- Reply  that of by-ttl.lua; the first number is that of keys that were given one.
local by_ttl = ...

return by_ttl(function(key)
  redis.call('PEXPIRE', key, ARGV[2])
end)
