-- Moves the deadlines of slots that are still held (concurrency.lua) to a whole window from now.
--
-- KEYS   one key a rule.
-- ARGV   for each key: window in ms; slot; units that it holds.
-- Reply  for each key the ms of the new deadline.
--
-- Takes the algorithms, of which it needs none, and a clock.
return function(_, clock)
  local now = math.floor(clock() / 1000)
  local reply = {}
  for i, key in ipairs(KEYS) do
    local window, slot, units = tonumber(ARGV[3 * i - 2]), ARGV[3 * i - 1], tonumber(ARGV[3 * i])
    local members = {}
    for unit = 1, units do
      members[2 * unit - 1] = string.format('%.0f', now + window)
      members[2 * unit] = slot .. ':' .. unit
    end
    redis.call('ZADD', key, 'XX', unpack(members))
    redis.call('PEXPIRE', key, string.format('%.0f', window))
    reply[i] = now + window
  end
  return reply
end
