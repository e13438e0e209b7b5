-- Reads the newest version of a document, unless the reader has it already.
--
-- KEYS   the document: a hash of `version`, and for each version that is kept `<version>`, its text, and
--        `<version>:at`, `<version>:by` and `<version>:why`. It has no time to live: it is configuration.
-- ARGV   the version that the reader has, 0 for none.
-- Reply  the newest version, 0 if there is none; if that is another one than the reader's, also when it was written
--        (ms since 1970), by whom, why, and its text.
local key = KEYS[1]
local version = redis.call('HGET', key, 'version') or '0'
if version == ARGV[1] or version == '0' then
  return { version }
end
local kept = redis.call('HMGET', key, version .. ':at', version .. ':by', version .. ':why', version)
return { version, kept[1], kept[2], kept[3], kept[4] }
