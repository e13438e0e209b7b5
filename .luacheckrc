-- Redis runs Lua 5.1 and hands a script these globals.
std = "lua51"
read_globals = { "redis", "cjson", "KEYS", "ARGV" }
max_line_length = 120
