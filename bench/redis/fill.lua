-- Makes the state that admissions of the last half hour would have left, one a step.
--
-- KEYS  the key
-- ARGV  kind, number of entries, Redis's name of the field of a stream's entry
local kind, entries, field = ARGV[1], tonumber(ARGV[2]), ARGV[3]
local time = redis.call('TIME')
local end_ms, span_ms = time[1] * 1000, 1800000

for i = 1, entries do
  local ms = string.format('%.0f', end_ms - span_ms + math.floor(i * span_ms / (entries + 1)))
  if kind == 'set' then
    -- Unique, as microseconds would be.
    local us = ms .. string.format('%03d', i % 1000)
    redis.call('ZADD', KEYS[1], us, us)
  else
    redis.call('XADD', KEYS[1], ms .. '-' .. i, field, 1)
  end
end
