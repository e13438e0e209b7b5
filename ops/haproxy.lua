-- Asks `sluice serve` about a request, for haproxy.cfg: it is admitted, or gets the refusal as it came.

local URL = 'http://127.0.0.1:8787/_sluice/authorize'

-- They are about the connection and the body of the client, and not about what it asks.
local KEPT_BACK = { ['connection'] = true, ['content-length'] = true, ['transfer-encoding'] = true,
  ['expect'] = true, ['upgrade'] = true, ['te'] = true, ['keep-alive'] = true, ['host'] = true }

local function refuse(txn, status, headers, body)
  txn:done(txn:reply({ status = status, headers = headers, body = body }))
end

core.register_action('sluice', { 'http-req' }, function(txn)
  local asked = {}
  for name, values in pairs(txn.http:req_get_headers()) do
    if not KEPT_BACK[name] then asked[name] = values end
  end
  local answer = core.httpclient():get({ url = URL, headers = asked, timeout = 10000 })
  local status = answer and answer.status or 0
  if status == 0 then return refuse(txn, 503, {}, '') end
  if status ~= 200 then
    local headers = {}
    for name, values in pairs(answer.headers or {}) do
      if not KEPT_BACK[name] then
        headers[name] = {}
        for _, value in pairs(values) do table.insert(headers[name], value) end
      end
    end
    return refuse(txn, status, headers, answer.body or '')
  end
  for name, variable in pairs({ ['ratelimit'] = 'txn.ratelimit', ['ratelimit-policy'] = 'txn.ratelimit_policy' }) do
    local values = answer.headers[name]
    if values then txn:set_var(variable, values[0] or values[1]) end
  end
end, 0)
