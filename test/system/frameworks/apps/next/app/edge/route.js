import { limit } from 'sluice/fetch'
import { answerCall } from '../../../answer.js'

export const runtime = 'edge'
export const GET = limit(answerCall, { limits: '10/1h', log() {} })
