-- Merges two sketches of what was seen most often, as src/core/store/counters.ts does and writes them.
-- Returns merge(one, other, capacity): the texts of two sketches, the first of which may be missing (nil or false), and
-- how many names the result keeps at most.

-- A sketch by name, the names in no order, and how often a name that it lacks may have been seen.
local function read(text)
  local floor, rest = string.match(text, '^(%d+)(.*)$')
  local items = {}
  for name, count, over, label in string.gmatch(rest, '\n(%S+) (%d+) (%d+) ?(%S*)') do
    items[name] = { name = name, count = count + 0, over = over + 0, label = label }
  end
  return items, floor + 0
end

local function is_before(one, other)
  if one.count ~= other.count then
    return one.count > other.count
  end
  return one.name < other.name
end

local function integer(number)
  return string.format('%.0f', number)
end

local function write(items, floor, capacity)
  table.sort(items, is_before)
  local first_left_out = items[capacity + 1]
  if first_left_out and first_left_out.count > floor then
    floor = first_left_out.count
  end
  local lines = { integer(floor) }
  for i = 1, math.min(#items, capacity) do
    local item = items[i]
    local label = item.label == '' and '' or ' ' .. item.label
    lines[i + 1] = item.name .. ' ' .. integer(item.count) .. ' ' .. integer(item.over) .. label
  end
  return table.concat(lines, '\n')
end

return function(one, other, capacity)
  local ones, ones_floor = read(one or '0')
  local others, others_floor = read(other)
  local merged = {}
  for name, item in pairs(others) do
    local known = ones[name]
    ones[name] = nil
    item.count = item.count + (known and known.count or ones_floor)
    item.over = item.over + (known and known.over or ones_floor)
    if known and item.label == '' then
      item.label = known.label
    end
    merged[#merged + 1] = item
  end
  for _, item in pairs(ones) do
    item.count, item.over = item.count + others_floor, item.over + others_floor
    merged[#merged + 1] = item
  end
  return write(merged, ones_floor + others_floor, capacity)
end
