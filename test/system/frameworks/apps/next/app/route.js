import { limit } from 'sluice/fetch'
import { answerCall } from '../../answer.js'
import { options } from '../../options.js'

export const GET = limit(answerCall, options)
