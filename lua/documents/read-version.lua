-- Reads one version of a document.
--
-- KEYS   the document (read-newest.lua).
-- ARGV   the version.
-- Reply  the version, when it was written (ms since 1970), by whom, why, its id, and its text; only the version if it
--        is not kept (any more).
local key, version = KEYS[1], ARGV[1]
local kept = redis.call(
  'HMGET', key,
  version .. ':at', version .. ':actor', version .. ':comment', version .. ':id', version
)
if not kept[5] then
  return { version }
end
return { version, kept[1], kept[2], kept[3], kept[4], kept[5] }
