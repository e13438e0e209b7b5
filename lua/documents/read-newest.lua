-- Reads the newest version of a document, unless the reader has it already.
--
-- KEYS   the document: a hash of `version`, and for each version that is kept `<version>`, its text, and
--        `<version>:at`, `<version>:actor`, `<version>:comment` and `<version>:id`, which is random: versions can be
--        lost, and others written with the same numbers. The hash has no time to live: it is configuration.
-- ARGV   1  the version that the reader has, 0 for none
--        2  its id, empty for none
-- Reply  the newest version, 0 if there is none; if that is another one than the reader's, also when it was written
--        (ms since 1970), by whom, why, its id, and its text.
local key = KEYS[1]
local newest = redis.call('HMGET', key, 'version', ARGV[1] .. ':id')
local version = newest[1] or '0'
if version == '0' or (version == ARGV[1] and newest[2] == ARGV[2]) then
  return { version }
end
local kept = redis.call(
  'HMGET', key,
  version .. ':at', version .. ':actor', version .. ':comment', version .. ':id', version
)
return { version, kept[1], kept[2], kept[3], kept[4], kept[5] }
