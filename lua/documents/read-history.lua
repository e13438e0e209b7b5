-- Tells the versions of a document that are kept.
--
-- KEYS   the document (read-newest.lua).
-- ARGV   how many at most.
-- Reply  for each, newest first: the version, when it was written (ms since 1970), by whom, why, and its id.
local key, most = KEYS[1], tonumber(ARGV[1])
local newest = tonumber(redis.call('HGET', key, 'version') or '0')
local fields, reply = {}, {}
for version = newest, math.max(1, newest - most + 1), -1 do
  local name = string.format('%.0f', version)
  fields[#fields + 1] = name .. ':at'
  fields[#fields + 1] = name .. ':actor'
  fields[#fields + 1] = name .. ':comment'
  fields[#fields + 1] = name .. ':id'
end
if newest == 0 then
  return reply
end
local kept = redis.call('HMGET', key, unpack(fields))
for i = 1, #fields, 4 do
  if kept[i] then
    reply[#reply + 1] = string.format('%.0f', newest - (i - 1) / 4)
    for n = i, i + 3 do
      reply[#reply + 1] = kept[n]
    end
  end
end
return reply
