-- For wrk: requests by many callers in random turns. Arguments: first part of the tokens, number of callers, fields of
-- a request, which are 2 or what a browser and Cloudflare send.
-- luacheck: globals setup init request done sent
local BROWSER = [[
User-Agent: Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/142.0.0.0 Safari/537.36
Accept: application/json, text/plain, */*
Accept-Encoding: gzip, br
Accept-Language: en-US,en;q=0.9,de;q=0.8
Referer: https://app.example.com/things
Sec-CH-UA: "Chromium";v="142", "Google Chrome";v="142", "Not_A Brand";v="99"
Sec-CH-UA-Mobile: ?0
Sec-CH-UA-Platform: "Linux"
Sec-Fetch-Dest: empty
Sec-Fetch-Mode: cors
Sec-Fetch-Site: same-site
Priority: u=1, i
CF-Connecting-IP: 203.0.113.7
CF-IPCountry: DE
CF-RAY: 9a3b5c7d8e9f0a1b-FRA
CF-Visitor: {"scheme":"https"}
CDN-Loop: cloudflare; loops=1
X-Forwarded-For: 203.0.113.7
X-Forwarded-Proto: https
]]
local before, after, callers, thread

function setup(only_thread)
  thread = only_thread
end

function init(args)
  before = 'GET /v1/things?page=2 HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer ' .. args[1] .. '-'
  after = '\r\n' .. (args[3] == '2' and '' or BROWSER:gsub('\n', '\r\n')) .. '\r\n'
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
    '{"sent":%d,"requestsPerSecond":%.1f,"p50Ms":%.3f,"p99Ms":%.3f,"refused":%d,"failed":%d}\n',
    thread:get('sent'), summary.requests / summary.duration * 1e6, latency:percentile(50) / 1e3,
    latency:percentile(99) / 1e3, errors.status, errors.connect + errors.read + errors.write + errors.timeout))
end
