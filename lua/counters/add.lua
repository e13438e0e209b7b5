-- Adds what one isolate has counted to hashes, unless it was added before.
--
-- KEYS   hashes; the first one remembers what was added.
-- ARGV   1  field of the first hash that holds the number of the last flush of this isolate
--        2  number of this flush, above those of its flushes before
--        3  names that a sketch keeps at most
--        then for each key: ms to live; c; c pairs of a field and what to add to it, an integer; s; s pairs of a field
--        and a sketch to merge into it
-- Reply  1, or 0 if this flush had been added before.
--
-- Fields are read by one command a hash, and written by another: each command is billed, however many fields it has.
local merge_sketches = ...

-- Lua takes no more than some thousands of arguments at once.
local AT_ONCE = 1000

local function read(key, fields)
  local values = {}
  for first = 1, #fields, AT_ONCE do
    local last = math.min(first + AT_ONCE - 1, #fields)
    for i, value in ipairs(redis.call('HMGET', key, unpack(fields, first, last))) do
      values[first + i - 1] = value
    end
  end
  return values
end

-- Returns whether the hash is new, as far as can be told: if all of its fields are.
local function write(key, fields, values)
  local added = 0
  for first = 1, #fields, AT_ONCE do
    local pairs_of = {}
    for i = first, math.min(first + AT_ONCE - 1, #fields) do
      pairs_of[#pairs_of + 1] = fields[i]
      pairs_of[#pairs_of + 1] = values[i]
    end
    added = added + redis.call('HSET', key, unpack(pairs_of))
  end
  return added == #fields
end

local source, number, capacity = ARGV[1], ARGV[2] + 0, ARGV[3] + 0
local cursor, lifetimes, has_new = 4, {}, false
for i, key in ipairs(KEYS) do
  local counters = ARGV[cursor + 1] + 0
  local sketches_at = cursor + 2 + 2 * counters
  local sketches = ARGV[sketches_at] + 0
  local fields, given = {}, {}
  for at = cursor + 2, sketches_at - 2, 2 do
    fields[#fields + 1], given[#given + 1] = ARGV[at], ARGV[at + 1]
  end
  for at = sketches_at + 1, sketches_at + 2 * sketches - 1, 2 do
    fields[#fields + 1], given[#given + 1] = ARGV[at], ARGV[at + 1]
  end
  if i == 1 then
    fields[#fields + 1], given[#given + 1] = source, ARGV[2]
  end
  local values = read(key, fields)
  if i == 1 and (values[#fields] or 0) + 0 >= number then
    return 0
  end
  for at = 1, counters do
    values[at] = string.format('%.0f', (values[at] or 0) + given[at])
  end
  for at = counters + 1, counters + sketches do
    values[at] = merge_sketches(values[at], given[at], capacity)
  end
  if i == 1 then
    values[#fields] = ARGV[2]
  end
  has_new = write(key, fields, values) or has_new
  lifetimes[i] = ARGV[cursor]
  cursor = sketches_at + 1 + 2 * sketches
end
if has_new then
  for i, key in ipairs(KEYS) do
    redis.call('PEXPIRE', key, lifetimes[i])
  end
end
return 1
