-- Looks at keys in order, and sets a time to live where there is none. Without one to set, it writes nothing.
--
-- KEYS   names, some of which may have gone.
-- ARGV   1  µs after which it begins no more keys
--        2  time to live in ms; left out: keys are only counted
-- Reply  keys that have no time to live, keys that have one or are to have none, keys that have gone, µs taken (0:
--        the clock stands still during a script). Keys beyond the sum of the first three have not been looked at.
--
-- A script holds up everything else, and how long keys take is not known before, so it looks at the clock; not
-- often, as each look is a command that some servers charge for.
local AT_ONCE = 32

local function now_us()
  local time = redis.call('TIME')
  return time[1] * 1000000 + time[2]
end

-- Rules and audit logs are configuration, and are to stay (lua/documents/read-newest.lua).
local function is_document(key)
  if not string.find(key, ':rules$') and not string.find(key, ':audit$') then
    return false
  end
  local version = redis.pcall('HGET', key, 'version')
  return type(version) == 'string' and redis.call('HEXISTS', key, version .. ':at') == 1
end

local started, budget, ttl_ms = now_us(), tonumber(ARGV[1]), ARGV[2]
local bare, kept, gone = 0, 0, 0
for i, key in ipairs(KEYS) do
  local ttl = redis.call('PTTL', key)
  if ttl == -2 then
    gone = gone + 1
  elseif ttl == -1 and not is_document(key) then
    bare = bare + 1
    if ttl_ms then
      redis.call('PEXPIRE', key, ttl_ms)
    end
  else
    kept = kept + 1
  end
  if i % AT_ONCE == 0 and now_us() - started > budget then
    break
  end
end
return { bare, kept, gone, math.max(now_us() - started, 0) }
