-- The sliding window on a sorted set as it is usually written, in its best form: one set and one script for all limits.
--
-- KEYS  the set of one caller
-- ARGV  limit and window in ms of each limit, the longest last
-- Reply 1 if admitted, else 0
local time = redis.call('TIME')
local now_us = time[1] * 1000000 + time[2]
local longest = tonumber(ARGV[#ARGV])

redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now_us - longest * 1000)
for i = 1, #ARGV, 2 do
  local count = i == #ARGV - 1 and redis.call('ZCARD', KEYS[1])
    or redis.call('ZCOUNT', KEYS[1], '(' .. string.format('%.0f', now_us - ARGV[i + 1] * 1000), '+inf')
  if count >= tonumber(ARGV[i]) then
    return 0
  end
end
-- No two scripts run in the same microsecond.
redis.call('ZADD', KEYS[1], now_us, string.format('%.0f', now_us))
redis.call('PEXPIRE', KEYS[1], longest)
return 1
