-- The sliding window on a stream that adds up its entries, as it has been published, corrected only so far that it
-- runs: one unit of time, numbers compared as numbers, the cost stored rather than the limit, XADD's options in order.
--
-- KEYS  the stream of one caller and one window
-- ARGV  limit, window in seconds, cost
-- Reply 1 if admitted, else 0
local limit, window, cost = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local time = redis.call('TIME')
local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)
local start_ms = string.format('%.0f', now_ms - window * 1000)

local sum = 0
for _, entry in ipairs(redis.call('XRANGE', KEYS[1], start_ms, '+')) do
  sum = sum + tonumber(entry[2][2])
end
if sum + cost > limit then
  return 0
end
redis.call('XADD', KEYS[1], 'MINID', '~', start_ms, '*', 'n', cost)
redis.call('EXPIRE', KEYS[1], window)
return 1
