-- Writes the next version of a document, if the writer has seen the newest one. It checks first, and then writes all or
-- nothing.
--
-- KEYS   the document (read-newest.lua).
-- ARGV   1  the version that the writer has seen, 0 for none
--        2  the text: JSON of an object
--        3  by whom
--        4  why
--        5  bytes of a text at most
--        6  versions kept
--        7  id of the new version
--        8  id of the version that the writer has seen, empty for none; left out: its number is enough
-- Reply  "written", the new version, and when (ms since 1970); or "conflict", "too-large" or "malformed", and the
--        version that stays.
local key, text = KEYS[1], ARGV[2]
local newest = redis.call('HMGET', key, 'version', ARGV[1] .. ':id')
local version = newest[1] or '0'
if version ~= ARGV[1] or (ARGV[8] and ARGV[8] ~= (newest[2] or '')) then
  return { 'conflict', version }
end
if #text > tonumber(ARGV[5]) then
  return { 'too-large', version }
end
local is_json, value = pcall(cjson.decode, text)
if not is_json or type(value) ~= 'table' or string.sub(text, 1, 1) ~= '{' then
  return { 'malformed', version }
end
local number = tonumber(version) + 1
local name = string.format('%.0f', number)
local time = redis.call('TIME')
local at = string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000))
redis.call(
  'HSET', key, 'version', name, name, text,
  name .. ':at', at, name .. ':actor', ARGV[3], name .. ':comment', ARGV[4], name .. ':id', ARGV[7]
)
local last = number - tonumber(ARGV[6])
if last > 0 then
  local old = string.format('%.0f', last)
  redis.call('HDEL', key, old, old .. ':at', old .. ':actor', old .. ':comment', old .. ':id')
end
return { 'written', name, at }
