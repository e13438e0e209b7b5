-- For wrk: requests by many callers in random turns. Arguments: first part of the tokens, number of callers.
-- luacheck: globals setup init request done sent
local before, after, callers, thread

function setup(only_thread)
  thread = only_thread
end

function init(args)
  before = 'GET /v1/things?page=2 HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer ' .. args[1] .. '-'
  after = '\r\n\r\n'
  callers = tonumber(args[2])
  -- A global, which `done` can read in the thread's own Lua.
  sent = 0
end

function request()
  sent = sent + 1
  return before .. math.random(callers) .. after
end

function done(summary, latency)
  local errors = summary.errors
  io.write(string.format(
    '{"requests":%d,"sent":%d,"requestsPerSecond":%.1f,"p50Ms":%.3f,"p99Ms":%.3f,"refused":%d,"failed":%d}\n',
    summary.requests, thread:get('sent'), summary.requests / summary.duration * 1e6, latency:percentile(50) / 1e3,
    latency:percentile(99) / 1e3, errors.status, errors.connect + errors.read + errors.write + errors.timeout))
end
