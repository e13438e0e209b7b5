-- Reads hashes whole.
--
-- KEYS   hashes, some of which may be missing.
-- Reply  for each key an array of fields, each followed by its value.
local reply = {}
for i, key in ipairs(KEYS) do
  reply[i] = redis.call('HGETALL', key)
end
return reply
