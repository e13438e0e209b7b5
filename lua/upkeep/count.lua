-- Counts keys without a time to live, and writes nothing. KEYS, ARGV and Reply are those of by-ttl.lua.
local by_ttl = ...

return by_ttl()
