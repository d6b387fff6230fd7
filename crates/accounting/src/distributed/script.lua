-- Applies a transaction of shared limits: checks that there is room for every part, then applies all parts or none.
--
-- Numbers are integers, exact up to 2^53. Time is the server's, in microseconds, so that the gateways' clocks need not agree.
local PARTS = 60000000 -- of one request or token: a rate of n a minute gives n of them back in a microsecond
local LEASE = 15000000 -- duration of a hold without renewal

local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local function text(number) return string.format('%.0f', number) end

-- Returns the used parts of a rate, after its decay until now.
local function used(part)
    local state = redis.call('HMGET', KEYS[part.key], 'used', 'at')
    local passed = math.max(0, now - (tonumber(state[2]) or now))
    return math.max(0, (tonumber(state[1]) or 0) - passed * part.limit)
end

-- Stores the used parts of a rate, until they have decayed.
local function use(part, parts)
    if parts <= 0 then
        redis.call('DEL', KEYS[part.key])
        return
    end
    redis.call('HSET', KEYS[part.key], 'used', text(parts), 'at', text(now))
    redis.call('PEXPIRE', KEYS[part.key], text(math.ceil(parts / math.max(1, part.limit) / 1000) + 1))
end

-- Holds are a sorted set of members by the end of their lease, and the sum of the amounts at the end of their names.
local function release(part, member)
    if redis.call('ZREM', KEYS[part.key], member) == 1 then
        redis.call('DECRBY', KEYS[part.sum], string.match(member, '%d+$'))
    end
end

local function hold(part, member)
    if redis.call('ZADD', KEYS[part.key], text(now + LEASE), member) == 1 then
        redis.call('INCRBY', KEYS[part.sum], string.match(member, '%d+$'))
    end
    redis.call('PEXPIRE', KEYS[part.key], text(LEASE / 1000))
    redis.call('PEXPIRE', KEYS[part.sum], text(LEASE / 1000))
end

local function held(part)
    for _, member in ipairs(redis.call('ZRANGEBYSCORE', KEYS[part.key], '-inf', text(now))) do
        release(part, member)
    end
    if redis.call('EXISTS', KEYS[part.key]) == 0 then redis.call('DEL', KEYS[part.sum]) end
    return math.max(0, tonumber(redis.call('GET', KEYS[part.sum])) or 0)
end

-- Spending is a total for each gateway. A gateway reports its whole total, so repeated reports count once and lost data is restored.
local function spent(part)
    local key, own = KEYS[part.spent], tonumber(redis.call('HGET', KEYS[part.spent], part.gateway)) or 0
    if part.own > own then
        redis.call('HINCRBY', key, 'all', text(part.own - own))
        redis.call('HSET', key, part.gateway, text(part.own))
        redis.call('EXPIREAT', key, text(part['until']))
        own = part.own
    end
    return tonumber(redis.call('HGET', key, 'all')) or 0, own
end

local parts, figures, refused = cjson.decode(ARGV[1]), {}, 0
for at, part in ipairs(parts) do
    local room = true
    if part.op == 'take' then
        part.used = used(part)
        room = part.used + part.count * PARTS <= part.limit * PARTS
    elseif part.op == 'hold' then
        local all, own = 0, 0
        if part.spent then all, own = spent(part) end
        local taken = held(part) + all
        room = taken < part.most and taken + (part.least or part.amount) <= part.most
        -- The member's name ends with the amount that it holds.
        local amount = math.min(part.amount, part.most - taken)
        part.member = string.gsub(part.member, '%d+$', text(amount))
        figures[at] = { taken, all, own }
    end
    if not room and refused == 0 then refused = at end
end
for at, part in ipairs(parts) do
    if part.op == 'take' then
        if refused == 0 then
            part.used = part.used + part.count * PARTS
            use(part, part.used)
        end
        figures[at] = { part.used }
    elseif part.op == 'hold' then
        if refused == 0 then hold(part, part.member) end
    elseif part.op == 'correct' then
        use(part, used(part) + part.count * PARTS)
    elseif part.op == 'release' then
        release(part, part.member)
    elseif part.op == 'renew' then
        for _, member in ipairs(part.members) do hold(part, member) end
    elseif part.op == 'spend' then
        local all, own = spent(part)
        figures[at] = { all, own }
    end
    figures[at] = figures[at] or {}
end
return { refused, figures }
